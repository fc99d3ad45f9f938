"""One head hop by hop: its powers and resolvent beside a deep model's rollout, γ, gold mass by hop, strongest paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields import other_run, url
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import n_hops, other_needed
from workbench.app.fields.values import belongs_to_run, start_anew
from workbench.app.fields.widgets import first_drawn
from workbench.app.panels import code, strongest_paths
from workbench.app.panels.code import Symbol, value_of
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.held_out import HeldOut, held_out, measured_beside
from workbench.app.panels.measuring import awaited
from workbench.app.panels.panel import Panel, folded, panel
from workbench.app.state import Look, Opened, current
from workbench.figures.hop_by_hop import far_query
from workbench.inspection import MOST_HOPS
from workbench.inspection.judged import beside_controls
from workbench.inspection.result import Result
from workbench.instruments.attention import attention_graph, path_mass, resolvent, rollout
from workbench.instruments.residual import projection
from workbench.interventions import Head
from workbench.judgement.words import by_place, claims
from workbench.judgement.words.figures import arrives

LONG = 256  # tokens of an input, from which on the other run is measured beside the page
GAMMA = 0.9  # if the layer has none of its own
PLACES = {"path_mass": "one head of one layer", "rollout": "all layers (rollout)"}
SAYS = (
    "The pattern A says what a query reads in one step, A² in two, and so on. A standard layer applies A alone, ChaCAL "
    "all of them at once. The rollout follows attention through every layer of the other model and its residual "
    "stream, assuming that all heads count alike and that half of each layer comes from the residual. None of these "
    "shows what information is read at a key, or that the model needs it."
)
FOLLOWED = (
    "Point at a token, or move with the arrow keys: arcs are the edges of each hop, as thick as what flows over them, "
    "γ to the power of the hops before. A row says where a hop arrives, in per cent, its true ancestors framed in "
    "orange; the last row is what all hops read together, scaled to 100 %. Only what is at least 0.2 % of a row is "
    "followed."
)
belongs_to_run("hops_powers")


@url.fragment
def hops(look: Look) -> None:
    """One token's way, which the page follows by itself, and with it the fields that every panel shares."""
    has_gold = look.seen.truth.n_hops > 0
    if not has_gold and attention_graph.why_not(look.opened.subject) is None:
        st.info("This input has no gold edges, so nothing is outlined or scored; longer inputs of this task have some.")
    elif not has_gold:
        st.info(
            "This task has no graph, so no gold edges are outlined and no mass on them is measured. "
            "Tasks such as pointer chains and sorting have one."
        )
    with panel("Follow a token", "hops-follow") as p:
        left, right = st.columns([7, 2.6])
        with left:
            layer, head = choose_head(look)
        beside = other_run.choose_other(look, right)
        start = first_drawn(len(projection.position_names(look.seen, 0)), place=right)
        n = max(2, n_hops(look))
        figure = code.call(figures.hop_by_hop, code.seen(look), layer=layer, head=head, n_hops=n, start=start)
        steps = code.call(resolvent.steps, code.seen(look), 0, layer, head, n_hops=n)
        verdict = arrives(value_of(steps), attention_graph.gold_edges(look.seen, 0, n), far_query(look.seen))
        p.show(figure, {"steps": steps}, FOLLOWED, verdict=verdict)
        note = st.empty()
    ladder(look, (layer, head), beside, start)
    another_gamma(look, (layer, head), start)
    if has_gold:
        gold_mass(look, (layer, head), beside)
    strongest_paths.show(look, (layer, head), beside)
    if other := other_needed(look):  # at last: heads are removed for it, and what is below need not wait
        note.caption(other)


@url.fragment
@folded("Hop ladder of this head: every query", "hops")
def ladder(p: Panel, look: Look, head: Head, beside: Opened | None, start: int) -> None:
    """The pattern and its powers for all queries at once, and the rollout of the other run."""
    seen, default = code.seen(look), max(2, min(4, n_hops(look)))
    powers = fields.slide("Powers of A up to", 2, MOST_HOPS, "hops_powers", default, place=st.columns([1, 3])[0])
    gold = code.assign("gold", attention_graph.gold_edges, seen, 0)
    matrices = code.assign("matrices", attention_graph.matrices, seen, 0, *head, n_hops=powers)
    deep = None
    if beside is not None:
        deep = code.assign("deep", rollout.matrices, other_run.seen_by(beside, look), 0)
    figure = code.call(figures.hop_matrices, matrices, deep, gold, start=start)
    verdict = by_place.by_hop(value_of(matrices), value_of(gold))
    p.show(figure, {"head": matrices} | ({} if deep is None else {"rollout": deep}), SAYS, verdict=verdict)


@url.fragment
def another_gamma(look: Look, place: Head, start: int) -> None:
    """What this pattern would reach at a γ of one's choice: the matrix, and its mass on this input's gold paths."""
    seen, (layer, head) = code.seen(look), place
    attention = look.opened.subject.attention[layer].of_head(head)
    own = attention.gamma
    start_anew(["gamma"], (str(look.opened.run.path), layer), "gamma")
    with panel("Another γ: every query", "hops-gamma", folded=True) as p:
        if not p.open:
            return
        help = "At 0 a query reads in one step; towards 1 paths of many steps weigh as much as those of one."
        default = GAMMA if own is None else own
        gamma = fields.slide("γ: the weight of each further step", 0.0, 0.99, "gamma", default, 0.01, help=help)
        gamma = round(gamma, 2)
        gammas: dict[str, float | None] = {"γ = 0: the pattern": 0.0}
        if own is None:
            itself = "reads the pattern alone" if attention.takes_one_step else "combines the steps in its own way"
            whose = f"what ChaCAL would read through this layer's pattern; the layer itself {itself}"
        else:
            gammas[f"γ = {own:g}: what the layer applies"] = None  # None stands for its own
            whose = f"what the layer would read through the same pattern, which was learnt at γ = {own:g}"
        if gamma and gamma != own:
            gammas[f"γ = {gamma:g}"] = gamma
        matrices = {
            name: code.call(resolvent.matrices, seen, 0, layer, head, gamma=gamma) for name, gamma in gammas.items()
        }
        parts = {name: one.select(matrix="resolvent") for name, one in matrices.items()}
        gold = code.assign("gold", attention_graph.gold_edges, seen, 0)
        title = f"What layer {layer}, head {head} would read"
        figure = code.call(figures.side_by_side, parts, gold, title=title, start=start)
        verdict = by_place.on_ancestors(value_of(parts), value_of(gold))
        says = (
            f"The resolvent at another γ is {whose}. A layer trained at the γ chosen here would have another pattern."
        )
        p.show(figure, matrices, says, verdict=verdict)
    if len(look.seen.truth.edges):
        mass_at_gamma(look, place, gammas)


def mass_at_gamma(look: Look, place: Head, gammas: dict[str, float | None]) -> None:
    where = {"layer": place[0], "head": place[1], "example": 0}
    with panel("Mass by hop: this input", "hops-gamma-mass") as p:
        runs = {
            name: code.call(path_mass.measure, code.seen(look), gamma=gamma, n_hops=n_hops(look)).select(**where)
            for name, gamma in gammas.items()
        }
        p.show(
            code.call(figures.hop_ladder, runs, {})[0],
            runs,
            "Of this head's queries that have gold ancestors: the share of attention on the ancestor 1, 2, 3, … hops "
            "up, on the query itself, and elsewhere. One input, so no interval.",
            verdict=by_place.each(
                "On the ancestor one hop up", {name: m.select(hop=1) for name, m in value_of(runs).items()}
            ),
        )


@url.fragment
def gold_mass(look: Look, place: Head, beside: Opened | None) -> None:
    """The same over held-out sequences, with controls, beside the other run."""
    with panel("Mass by hop: held-out sequences", "hops-mass") as p:
        by = fields.choose("Measured through", list(PLACES), "hops_by", "path_mass", PLACES.__getitem__, by="row")
        where = {"layer": place[0], "head": place[1]} if by == "path_mass" else {}
        try:
            runs, controls, results = measured(look.opened, code.run(look.opened), by, where, "own")
            other = None if beside is None else other_mass(beside, by)
            if other is not None:
                runs, controls, results = runs | other[0], controls | other[1], results | other[2]
        except ValueError as error:
            st.warning(plain(str(error)))
            return
        p.show(
            code.call(figures.hop_ladder, runs, controls)[0],
            {f"{name}, {by}": m for name, m in runs.items()}
            | {f"{name}, {control}": m for name, own in controls.items() for control, m in own.items()},
            "On held-out sequences, each run's own. Below each run its controls: the same attention beside the truth "
            "of other examples, re-initialised models, and attention drawn at random (what causal attention reaches "
            "without looking at anything). Mass on gold paths does not show what is read there, nor that the model "
            "needs it.",
            verdict=whole_chain(results, look.opened.name, place),
        )


# A run's mass by hop, that of its controls, and both with each re-initialised model, by the run's name.
Measured = tuple[dict[str, Symbol], dict[str, dict[str, Symbol]], dict[str, Result]]


def other_mass(other: Opened, by: str) -> Measured | None:
    """The other run's mass and its controls; None while a run of long inputs is measured, beside the page."""
    run = code.loaded(other.run)
    if other.subject.task.n_ctx < LONG:
        return measured(other, run, by, {}, "other")
    found: HeldOut | None = awaited(
        ("mass by hop", *other.key, by),
        lambda job: measured_beside(other.run, [by], other.step, job.tell),
        f"{other.name} on held-out sequences",
        f"{other.name} has no mass by hop",
    )
    return None if found is None else measured(other, run, by, {}, "other", lambda run, **how: found)


def whole_chain(results: dict[str, Result], run: str, head: Head) -> str | None:
    """How much of each run's mass lies on the whole chain, beside the control that is hardest to exceed.

    Args:
        results: run -> its mass by hop.
        run, head: the run that is looked at, and its head; of another one it is the best, as the figure draws it.
    """
    said = []
    for name, result in results.items():
        if result.of_every_head:
            chain = np.nan_to_num(result.mean.select(hop="chain").values, nan=-1.0)
            layer, number = map(int, np.unravel_index(int(chain.argmax()), chain.shape))  # with the most mass
            result = result.at_head(head if name == run else (layer, number))
        own = replace(result.mean.select(hop="chain"), name=f"On true ancestors, {name}")
        said.append(claims.beside_controls(own, beside_controls(result, hop="chain")))
    return " ".join(filter(None, said)) or None


def measured(
    opened: Opened,
    run: Symbol,
    by: str,
    where: dict[str, Any],
    name: str,
    computed_by: Callable[..., HeldOut] | None = None,
) -> Measured:
    """A run's mass by hop, and that of its controls."""
    held = code.named(name, held_out(run, [by], step=opened.step, computed_by=computed_by))

    def part(whole: Symbol) -> Symbol:
        selected: Symbol = whole.select(**where) if where else whole
        return selected

    controls = {name: part(held[by].controls[name].mean) for name in value_of(held)[by].controls}
    return {opened.name: part(held[by].mean)}, {opened.name: controls}, {opened.name: value_of(held)[by]}


hops(current(attention=True))
