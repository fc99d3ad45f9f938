"""Two runs, checkpoints or inputs side by side: what each shows, and what differs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from workbench import figures
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_matrix
from workbench.app.fields.sides import Sides, choose_sides
from workbench.app.fields.widgets import choose, first_drawn
from workbench.app.panels import code
from workbench.app.panels.canvas import choose_focus, focus_on, numbers
from workbench.app.panels.comparison import compared, pair, show, why_not
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.panel import Panel, folded, panel
from workbench.app.state import Look, current
from workbench.figures.token_page import WIDEST, right_at
from workbench.inspection.layer_similarity import layer_similarity
from workbench.inspection.lens_differences import lens_differences
from workbench.instruments.attention import attention_graph
from workbench.instruments.lens import lens_difference
from workbench.instruments.residual import projection
from workbench.interventions import Head
from workbench.judgement.words import by_place
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import ABOUT_P
from workbench.mechanisms import MECHANISMS
from workbench.report.comparisons import comparison_heading, difference_rows
from workbench.runs import Run

OWN = {
    "logit_lens": "how far each layer is from its own model's output",
    "lens_agreement": "how often the right answer can be read there",
}
BETWEEN = {
    "kl": "between A and B: KL(A ‖ B) of what they decode",
    "same_top": "between A and B: how often their likeliest token is the same",
    "cosine": "between A and B: cosine of what they decode",
}


def one_run(sides: Sides) -> str:
    """What no difference on this page can show."""
    if sides.one_model:
        return "These are two single inputs: there is no interval, and two others may differ in another way."
    return "Each side is a single run: two seeds of one config can differ as much."


@url.fragment
def answers(sides: Sides) -> None:
    with panel("Right answers overall", "compare-overall") as p:
        says = "The share of scored positions that are right, and of sequences that are right throughout, each answer "
        show(p, sides, pair(sides, "overall"), f"{says}computed with the true tokens before it. {one_run(sides)}")
        if sides.one_model:
            return
        differences = compared(sides)
        if differences is None:
            st.caption("A and B were measured on different sequences, so nothing is tested in pairs.")
            return
        _table(sides, differences[differences["measure"] == pair(sides, "overall").values[0].name])
        st.caption(ABOUT_P)
        with st.expander(f"All {len(differences)} measures that both have, compared in pairs"):
            _table(sides, differences)
            st.caption(f"{comparison_heading(differences)} A small p says that there is a difference, not a large one.")


def _table(sides: Sides, differences: pd.DataFrame) -> None:
    """Rows of a comparison in words."""
    headings = ["measure", *sides.names, "difference [95 %]", "n", "p", "p (Holm)"]
    st.dataframe(pd.DataFrame(difference_rows(differences), columns=headings), hide_index=True, width="stretch")


@url.fragment
@folded("This input in A and in B", "compare-canvas")
def canvases(p: Panel, sides: Sides) -> None:
    first, second = sides.looks
    which_at, basis_at, from_at, focus_at = st.columns([3.2, 2.6, 2.4, 2.6], vertical_alignment="bottom")
    with which_at:
        which = choose_matrix(first, second)
    basis = fields.choose("Basis of the cells", projection.BASES, "basis", "decoder", place=basis_at, by="row")
    threshold = fields.slide("Hide edges under", 0.01, 0.5, "threshold", 0.05, 0.01, from_at, format="percent")
    sizes = [len(projection.sequence(look.seen, 0)) for look in sides.looks]
    query = choose_focus(min(sizes), focus_at)
    start = first_drawn(max(sizes))
    heads = {}
    for name, key, look, n_pos in zip("AB", ("head", "head2"), sides.looks, sizes, strict=True):
        st.markdown(f"#### {name}")
        heads[name] = layer, head = choose_head(look, key)
        settings = {"layer": layer, "head": head, "which": which, "basis": basis, "threshold": threshold}
        settings |= {"start": min(start, max(0, n_pos - WIDEST)), "query": query}
        _canvas(p, name, look, settings)
    if not sides.one_input:
        st.info("A and B read different tokens, so their attention and their cells are not subtracted.")
        return
    st.markdown("#### The difference")
    _attention(p, sides, (heads["A"], heads["B"]), which, start)
    _cells(p, sides, basis, start)


def _canvas(p: Panel, name: str, look: Look, settings: dict[str, Any]) -> None:
    p.part(name, name.lower()).show(
        code.call(figures.canvas, code.seen(look), **settings),
        numbers(look, settings["layer"], settings["head"], settings["which"], settings["basis"]),
        "Each cell shows the token whose vector has the largest inner product with the residual there. "
        "Click a token to see its edges alone. Where a head looks does not show what it reads there, nor that it "
        "matters.",
        verdict=by_place.answered(right_at(look.seen), look.opened.subject.task),
        token=lambda position: focus_on(position, settings["query"]),
    )


def _attention(p: Panel, sides: Sides, heads: tuple[Head, Head], which: str, start: int) -> None:
    hops = attention_graph.hop_of(which) or 1
    first, second = (
        code.assign(name, attention_graph.matrices, code.seen(look), 0, *head, n_hops=hops)
        for name, look, head in zip(("first", "second"), sides.looks, heads, strict=True)
    )
    p.part("difference of attention", "attention").show(
        code.call(figures.attention_difference, first, second, which, start=start),
        {"A": first, "B": second},
        "Each query's attention in B minus that in A, for the two heads chosen. The order of heads in a model is "
        "arbitrary: the head that does the same in the other run may have another number. Where attention differs, "
        "what is read may still be alike.",
        widest=False,
    )


def _cells(p: Panel, sides: Sides, basis: str, start: int) -> None:
    first, second = (look.seen for look in sides.looks)
    points = lens_difference.shared_points(first, second)
    tables = [projection.top_tokens(seen, top=1, points=points) for seen in (first, second)]
    seen, seen_b = (code.seen(look) for look in sides.looks)
    p.part("cells that differ", "cells").show(
        code.call(figures.residual_difference, seen, seen_b, basis=basis, start=start),
        {"A": tables[0], "B": tables[1]},
        "The token whose vector has the largest inner product with the residual (decoder: after the final norm), at "
        "the layers that both have; a cell is in two halves where the two differ. Equal top tokens may come with "
        "different sizes, and that a token is on top does not show that the model uses it.",
    )


@url.fragment
@folded("What each layer already predicts", "compare-lens")
def lenses(p: Panel, sides: Sides) -> None:
    vocabularies = {look.opened.subject.task.vocabulary for look in sides.looks}
    options = OWN | (BETWEEN if len(vocabularies) == 1 and not sides.one_model else {})
    what = choose("Through the logit lens", list(options), "compare_lens", "logit_lens", options.__getitem__)
    picture = st.container()
    if what in BETWEEN:
        with picture:
            _between(p, sides, what)
        return
    where = {"against": "target"} if what == "lens_agreement" else {}
    with picture:
        says = "Each residual is decoded by its own model's final norm and unembedding, at scored positions: "
        says += f"{OWN[what]}. The lens does not see what a layer holds in another basis. The difference is of "
        show(p, sides, pair(sides, what, **where), f"{says}layers that both have. {one_run(sides)}")


@url.fragment
@folded("How alike their layers are", "compare-similarity")
def similarity(p: Panel, sides: Sides) -> None:
    first, second = (look.opened for look in sides.looks)
    if first.subject.task.vocabulary != second.subject.task.vocabulary:
        st.info("A and B know different tokens, so they cannot read the same sequences.")
        return
    how = {"n": sides.n, "seed": 0, "step": first.step, "second_step": second.step}
    both = code.assign(
        "both",
        layer_similarity,
        code.run(first),
        code.run(second, "_b"),
        **how,
        computed_by=lambda run, run_b, **how: _similarity((*first.key, *second.key), how, run, run_b),
    )
    alike: Measurement = code.value_of(both[0])
    figure = code.call(figures.layer_similarity, both[0], both[1])
    numbers = {"similarity": both[0], "shuffled": both[1]}
    p.show(figure, numbers, f"{alike.caption} {one_run(sides)}", verdict=by_place.extremes(alike))


@st.cache_data(show_spinner="Running both models …", max_entries=64)
def _similarity(key: tuple[Any, ...], how: dict[str, Any], _run: Run, _run_b: Run) -> tuple[Measurement, Measurement]:
    return layer_similarity(_run, _run_b, **how)


def _between(p: Panel, sides: Sides, how: str) -> None:
    first, second = (look.opened for look in sides.looks)
    each = code.call(
        lens_differences,
        code.run(first),
        code.run(second, "_b"),
        n=sides.n,
        seed=0,
        how=how,
        step=first.step,
        second_step=second.step,
        computed_by=lambda run, run_b, **how: _lens_differences((*first.key, *second.key), how, run, run_b),
    )
    mean = code.named("mean", each.mean("example"))
    says = f"{code.value_of(mean).caption} {one_run(sides)}"
    verdict = by_place.extremes(code.value_of(mean))
    p.show(code.call(figures.lens_difference_by_layer, mean), {"difference": mean}, says, verdict=verdict)


@st.cache_data(show_spinner="Running both models …", max_entries=64)
def _lens_differences(key: tuple[Any, ...], how: dict[str, Any], _run: Run, _run_b: Run) -> Measurement:
    return lens_differences(_run, _run_b, **how)


@url.fragment
def entropy(sides: Sides) -> None:
    with panel("Entropy by layer", "compare-entropy") as p:
        both = pair(sides, "entropy")
        show(p, sides, both, f"{both.values[0].caption} {one_run(sides)}")


@url.fragment
@folded("How often each mechanism's claim holds", "compare-mechanisms")
def mechanisms(p: Panel, sides: Sides) -> None:
    shared = [name for name in MECHANISMS if why_not(sides, name) is None]
    if not shared:
        st.info("No claim about a mechanism can be tested on both: choose runs of a task that has some.")
        return
    words = {name: pair(sides, name).values[0].name for name in shared}
    name = choose("Claim", shared, "compare_claim", shared[0], words.__getitem__)
    picture = st.container()
    with picture:
        both = pair(sides, name)
        whose = "Each side is read at its own head with the most attention on the task's graph. "
        whose = whose if both.of_best_head else ""
        show(p, sides, both, f"{both.values[0].caption} {whose}{one_run(sides)}", by_condition=True)


@url.fragment
@folded("Right answers by condition", "compare-accuracy")
def accuracy(p: Panel, sides: Sides) -> None:
    both = pair(sides, "accuracy")
    dim, dim_b = (measured.dims[0] for measured in both.values)
    if dim != dim_b:
        st.info(f"A's answers are grouped by {dim}, B's by {dim_b}, so there is nothing to subtract.")
        return
    says = "Each answer is computed with the true tokens before it."
    show(p, sides, both, f"{both.values[0].caption} {says} {one_run(sides)}")


sides = choose_sides(current())
if sides is not None and sides.one_model and sides.one_input:
    st.info("Both sides are the same: choose another run, checkpoint or input for B.")
elif sides is not None:
    if sides.one_model:
        st.info("Both sides are the same model, so only the two inputs are compared.")
    for part in (answers, entropy, canvases, lenses, similarity, mechanisms, accuracy):
        part(sides)
