"""One head hop by hop: its powers and resolvent beside a deep model's rollout, γ, gold mass by hop, strongest paths."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import other_run as other
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import Head, choose_head, n_hops
from workbench.app.fields.widgets import first_drawn, start_anew
from workbench.app.panels import strongest_paths as paths
from workbench.app.panels.held_out import held_out, line
from workbench.app.panels.panel import code, panel
from workbench.app.state import Look, Opened, current, plain
from workbench.inspection import MOST_HOPS
from workbench.instruments.attention import attention_graph, path_mass, resolvent, rollout
from workbench.measurement import Measurement
from workbench.models.attention import Attention

GAMMA = 0.9  # where the layer has none of its own
GOLD = "attention_graph.gold_edges(seen, 0)"
FIGURES = "from workbench import figures"
PLACES = {"path_mass": "one head of one layer", "rollout": "all layers (rollout)"}


@address.fragment
def hops(look: Look) -> None:
    """The matrices, and with them the fields that every panel shares."""
    gold = attention_graph.gold_edges(look.seen, 0)
    if not gold:
        st.info(no_gold(look))
    with panel("Hop ladder of this head", "hops") as p:
        left, middle, right, more = st.columns([2.4, 2.2, 3, 3], vertical_alignment="bottom")
        with left:
            layer, head = choose_head(look)
        beside = other.choose_other(look, right)
        default = max(2, min(4, n_hops(look)))
        powers = fields.slide("Powers of A up to", 2, MOST_HOPS, "hops_powers", default, place=middle)
        start = first_drawn(len(attention_graph.position_names(look.seen, 0)), place=more)
        matrices = attention_graph.matrices(look.seen, 0, layer, head, n_hops=powers)
        deep = None if beside is None else rollout.matrices(beside.see(look.batch), 0)
        lines = [] if beside is None else [other.line(beside), "deep = rollout.matrices(other, 0)"]
        p.show(
            figures.hop_matrices(matrices, deep, gold, start=start),
            {"head": matrices} | ({} if deep is None else {"rollout": deep}),
            code(
                look,
                *lines,
                f"matrices = attention_graph.matrices(seen, 0, {layer}, {head}, n_hops={powers})",
                f"gold = {GOLD}",
                f"figure = figures.hop_matrices(matrices, {'None' if deep is None else 'deep'}, gold, start={start})",
                imports=(FIGURES, "from workbench.instruments import attention_graph, rollout"),
            ),
            "The pattern A says what a query reads in one step, A² in two, and so on; this layer "
            f"{look.opened.subject.attention[layer].how_it_reads}. The rollout follows attention through every layer "
            "of the other model and its residual stream; that heads count alike and half of each layer comes from the "
            "residual is assumed. None of these says what is read at a key, nor that the model needs it.",
        )
    another_gamma(look, (layer, head), start)
    if gold:
        gold_mass(look, (layer, head), beside)
    paths.show(look, (layer, head), beside)


def no_gold(look: Look) -> str:
    """Why nothing is outlined, and what would change that."""
    if attention_graph.why_not(look.opened.subject) is None:
        return "This input has no gold edges, so nothing is outlined or scored; longer inputs of this task have some."
    return (
        "This task has no graph, so no gold edges are outlined and no mass on them is measured. "
        "Pointer chains, boxes, arithmetic and sorting have one."
    )


@address.fragment
def another_gamma(look: Look, place: Head, start: int) -> None:
    """What this pattern would reach at a γ of one's choice: the matrix, and its mass on this input's gold paths."""
    seen, (layer, head) = look.seen, place
    attention = look.opened.subject.attention[layer]
    own = attention.gamma
    default = GAMMA if own is None else own
    start_anew(["gamma"], (str(look.opened.run.path), layer), "gamma")
    with panel("Another γ", "hops-gamma") as p:
        chosen = fields.slide(
            "γ: the weight of each further step",
            0.0,
            0.99,
            "gamma",
            default,
            0.01,
            help="At 0 a query reads in one step; towards 1 paths of many steps weigh as much as those of one.",
        )
        gammas = compared(round(chosen, 2), own)
        found = {name: resolvent.matrices(seen, 0, layer, head, gamma=gamma) for name, gamma in gammas.items()}
        parts = {name: m.select(matrix="resolvent") for name, m in found.items()}
        title = f"What layer {layer}, head {head} would read"
        p.show(
            figures.side_by_side(parts, attention_graph.gold_edges(seen, 0), title=title, start=start),
            found,
            code(
                look,
                f"gammas = {gammas}",
                f"head = (seen, 0, {layer}, {head})",
                "found = {name: resolvent.matrices(*head, gamma=g) for name, g in gammas.items()}",
                "parts = {name: m.select(matrix='resolvent') for name, m in found.items()}",
                f"gold = {GOLD}",
                f"figure = figures.side_by_side(parts, gold, title={title!r}, start={start})",
                imports=(FIGURES, "from workbench.instruments.attention import attention_graph, resolvent"),
            ),
            another_gamma_in_words(attention),
        )
    if len(seen.truth.edges):
        mass_at_gamma(look, place, gammas)


def compared(gamma: float, own: float | None) -> dict[str, float | None]:
    """Label -> γ; None stands for what the layer applies."""
    found: dict[str, float | None] = {"γ = 0: the pattern": 0.0}
    if own is not None:
        found[f"γ = {own:g}: what the layer applies"] = None
    return found if own == gamma or not gamma else {**found, f"γ = {gamma:g}": gamma}


def another_gamma_in_words(attention: Attention) -> str:
    """The caption: whose resolvent is shown, beside what the layer itself does."""
    whose = f"what ChaCAL would read through this layer's pattern; the layer itself {attention.how_it_reads}"
    if attention.gamma is not None:
        whose = f"what the layer would read through the same pattern; it was trained with γ = {attention.gamma:g}"
    return f"The resolvent at another γ is {whose}. The pattern, learnt without that γ, would not stay what it is."


def mass_at_gamma(look: Look, place: Head, gammas: dict[str, float | None]) -> None:
    layer, head = place
    with panel("Mass by hop on this input's gold paths", "hops-gamma-mass") as p:
        at = {"n_hops": n_hops(look)}
        runs = {
            name: path_mass.measure(look.seen, gamma=gamma, **at).select(layer=layer, head=head, example=0)
            for name, gamma in gammas.items()
        }
        p.show(
            figures.hop_ladder(runs, {})[0],
            runs,
            code(
                look,
                f"gammas = {gammas}",
                f"where = {{'layer': {layer}, 'head': {head}, 'example': 0}}",
                f"runs = {{name: path_mass.measure(seen, gamma=g, n_hops={n_hops(look)}).select(**where)"
                " for name, g in gammas.items()}",
                "figure = figures.hop_ladder(runs, {})[0]",
                imports=(FIGURES, "from workbench.instruments import path_mass"),
            ),
            "Of all that this head's queries with gold ancestors read on this one input: the share on the ancestor "
            "1, 2, 3, … hops up, on themselves, and elsewhere. One input has no interval.",
        )


@address.fragment
def gold_mass(look: Look, place: Head, beside: Opened | None) -> None:
    """The same over held-out sequences, with controls, beside the other run."""
    with panel("Gold-path mass by hop", "hops-mass") as p:
        by = fields.segments("Measured through", list(PLACES), "hops_by", "path_mass", format_func=PLACES.__getitem__)
        own = look.opened
        where = {"layer": place[0], "head": place[1]} if by == "path_mass" else {}
        try:
            runs, controls, lines = measured(own, by, where, "run", "own")
            if beside is not None:
                more = measured(beside, by, {}, f"workbench.load_run({str(beside.run.path)!r})", "other")
                runs, controls, lines = runs | more[0], controls | more[1], lines + more[2]
        except ValueError as error:
            st.warning(plain(str(error)))
            return
        both = "" if beside is None else " | other_{}"
        p.show(
            figures.hop_ladder(runs, controls)[0],
            {f"{name}, {by}": m for name, m in runs.items()}
            | {f"{name}, {null}": m for name, own in controls.items() for null, m in own.items()},
            code(
                look,
                *lines,
                *(f"{what} = own_{what}{both.format(what)}" for what in ("runs", "controls")),
                "figure = figures.hop_ladder(runs, controls)[0]",
                imports=(FIGURES, "from workbench.inspection import inspect_run"),
            ),
            "Held-out sequences, each run's own; below each run the same for other examples' truth, for fresh weights, "
            "and for attention drawn at random, which says what the shape of causal attention alone is worth. Mass "
            "on gold paths does not show what is read there, nor that the model needs it.",
        )


def measured(
    opened: Opened, by: str, where: dict[str, Any], run: str, name: str
) -> tuple[dict[str, Measurement], dict[str, dict[str, Measurement]], list[str]]:
    """A run's mass by hop and its controls, and the lines that measure them."""
    found = held_out(opened.run, [by], step=opened.step)
    runs = {opened.name: found[by].mean.select(**where)}
    controls = {opened.name: {null: control.mean.select(**where) for null, control in found[by].controls.items()}}
    select = f".select(**{where})" if where else ""
    lines = [
        f"{name} = {line(opened.run, [by], step=opened.step, of=run)}",
        f"{name}_runs = {{{opened.name!r}: {name}[{by!r}].mean{select}}}",
        f"nulls = {{null: one.mean{select} for null, one in {name}[{by!r}].controls.items()}}",
        f"{name}_controls = {{{opened.name!r}: nulls}}",
    ]
    return runs, controls, lines


hops(current())
