"""Two runs, checkpoints or inputs side by side: what each shows, and what differs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from workbench import figures
from workbench.app.fields import address
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_head, choose_matrix
from workbench.app.fields.sides import Sides, choose_sides
from workbench.app.fields.widgets import choose, first_drawn, position_in
from workbench.app.panels.measured import compared, pair, show, why_not
from workbench.app.panels.panel import Panel, code, panel
from workbench.app.state import Look, current
from workbench.figures.token_page import WIDEST
from workbench.inspection.two_runs import lens_differences
from workbench.instruments.attention import attention_graph
from workbench.instruments.lens import lens_difference
from workbench.instruments.residual import projection
from workbench.measurement import Measurement
from workbench.measurement.comparison import ABOUT_P
from workbench.mechanisms import MECHANISMS
from workbench.report.compared import comparison_heading, difference_rows

FIGURES = "from workbench import figures"
GRAPH = "from workbench.instruments import attention_graph"
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
    """What every difference here leaves open."""
    if sides.one_model:
        return "Two inputs are two inputs: there is no interval, and others may differ otherwise."
    return "It is one run a side: two seeds of one config may differ as much."


@address.fragment
def answers(sides: Sides) -> None:
    with panel("Right answers over all", "compare-overall") as p:
        says = "Share of scored positions that are right, and of sequences right throughout, given the true tokens "
        show(p, sides, pair(sides, "overall"), f"{says}before them. {one_run(sides)}")
        if sides.one_model:
            return
        differences = compared(sides)
        if differences is None:
            st.caption("A and B were measured on different sequences, so nothing is tested in pairs.")
            return
        _table(sides, differences[differences["measure"] == pair(sides, "overall").first.name])
        st.caption(ABOUT_P)
        with st.expander(f"Every number that both have, in pairs: {len(differences)}"):
            _table(sides, differences)
            st.caption(f"{comparison_heading(differences)} A small p says that there is a difference, not a large one.")


def _table(sides: Sides, differences: pd.DataFrame) -> None:
    """Rows of a comparison in words."""
    rows = [[label.replace(": unit ", " per "), *rest] for label, *rest in difference_rows(differences)]
    headings = ["", *sides.names, "difference [95 %]", "n", "p", "p (Holm)"]
    st.dataframe(pd.DataFrame(rows, columns=headings), hide_index=True, width="stretch")


@address.fragment
def canvases(sides: Sides) -> None:
    with panel("Canvas", "compare-canvas") as p:
        first, second = sides.looks
        left, right, which_at, basis_at, from_at = st.columns([2.6, 2.6, 3.2, 2.6, 2.2], vertical_alignment="bottom")
        with left:
            head = choose_head(first, "Head of A")
        with right:
            other = choose_head(second, "Head of B", "head2")
        with which_at:
            which = choose_matrix(first, second)
        basis = fields.segments("Basis of the cells", projection.BASES, "basis", "decoder", basis_at)
        threshold = fields.slide("Edges from", 0.01, 0.5, "threshold", 0.05, 0.01, from_at)
        sizes = [len(projection.sequence(look.seen, 0)) for look in sides.looks]
        query = position_in("Edges read by position", min(sizes), "focus", None, st.columns([1, 3])[0])
        start = first_drawn(max(sizes))
        for name, look, at, n_pos in zip("AB", sides.looks, (head, other), sizes, strict=True):
            how = {"layer": at[0], "head": at[1], "which": which, "basis": basis, "threshold": threshold}
            how |= {"start": min(start, max(0, n_pos - WIDEST)), "query": query}
            _canvas(p, sides, name, look, how)
        if not sides.one_input:
            st.info("A and B read different tokens, so their attention and their cells are not subtracted.")
            return
        _attention(p, sides, (head, other), which, start)
        _cells(p, sides, basis, start)


def _canvas(p: Panel, sides: Sides, name: str, look: Look, how: dict[str, Any]) -> None:
    st.markdown(f"##### {name}")
    hops = attention_graph.hop_of(how["which"]) or 1
    matrices = attention_graph.matrices(look.seen, 0, how["layer"], how["head"], n_hops=hops)
    table = projection.top_tokens(look.seen, top=1, points=projection.from_embedding(look.seen.subject))
    given = ", ".join(f"{key}={value!r}" for key, value in how.items())
    line = f"figure = figures.canvas(seen{look.suffix}, {given})"
    p.part(name, name.lower()).show(
        figures.canvas(look.seen, **how),
        {"attention": matrices, "residual": table},
        code(sides.first, line, imports=(FIGURES,), beside=look if look.suffix else None),
        "A cell holds the token whose vector is largest in the residual there (decoder: after the final norm); click a "
        "token to see its edges alone. Where a head looks does not show what it reads there, nor that it matters.",
        token=focus_on,
    )


def focus_on(position: int | None) -> None:
    """For a click on a token of either side: its edges alone, and all of them on a second click."""
    fields.put("focus", None if st.session_state.get("focus") == position else position)


def _attention(p: Panel, sides: Sides, heads: tuple[tuple[int, int], ...], which: str, start: int) -> None:
    hops = attention_graph.hop_of(which) or 1
    both: list[Measurement] = []
    lines = []
    for name, look, (layer, head) in zip(("first", "second"), sides.looks, heads, strict=True):
        both.append(attention_graph.matrices(look.seen, 0, layer, head, n_hops=hops))
        lines.append(f"{name} = attention_graph.matrices(seen{look.suffix}, 0, {layer}, {head}, n_hops={hops})")
    lines.append(f"figure = figures.attention_difference(first, second, {which!r}, start={start})")
    st.markdown("##### The difference")
    p.part("difference of attention", "attention").show(
        figures.attention_difference(both[0], both[1], which, start=start),
        {"A": both[0], "B": both[1]},
        code(sides.first, *lines, imports=(FIGURES, GRAPH), beside=sides.second),
        "Each query's attention in B less in A, for the two heads chosen. Heads of two runs are numbered as it comes: "
        "one that does the same may have another number. Where attention differs, what is read may still be alike.",
        widest=False,
    )


def _cells(p: Panel, sides: Sides, basis: str, start: int) -> None:
    first, second = (look.seen for look in sides.looks)
    points = lens_difference.shared_points(first, second)
    tables = [projection.top_tokens(seen, top=1, points=points) for seen in (first, second)]
    line = f"figure = figures.residual_difference(seen, seen_b, basis={basis!r}, start={start})"
    p.part("cells that differ", "cells").show(
        figures.residual_difference(first, second, basis=basis, start=start),
        {"A": tables[0], "B": tables[1]},
        code(sides.first, line, imports=(FIGURES,), beside=sides.second),
        "The token whose vector is largest in the residual (decoder: after the final norm), at the layers that both "
        "have; halves where the two differ. Equal top tokens may come with different sizes, and a large token need not "
        "be used.",
    )


@address.fragment
def lenses(sides: Sides) -> None:
    with panel("What each layer says already", "compare-lens") as p:
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
            says = "Each residual decoded by its own model's final norm and unembedding, at scored positions: "
            says += f"{OWN[what]}. What a layer holds in another basis it does not see. Only layers that both have are "
            show(p, sides, pair(sides, what, **where), f"{says}subtracted. {one_run(sides)}")


def _between(p: Panel, sides: Sides, how: str) -> None:
    found = _lens_differences((*sides.first.opened.key, *sides.second.opened.key, sides.n, how), sides, how)
    mean = found.mean("example")
    steps = [("step", sides.first.opened.step), ("second_step", sides.second.opened.step)]
    given = "".join(f", {name}={step}" for name, step in steps if step is not None)
    p.show(
        figures.lens_difference_by_layer(mean),
        {"difference": mean},
        code(
            sides.first,
            f"found = lens_differences(run, run_b, n={sides.n}, seed=0, how={how!r}{given})",
            "figure = figures.lens_difference_by_layer(found.mean('example'))",
            imports=(FIGURES, "from workbench.inspection.two_runs import lens_differences"),
            beside=sides.second,
            inputs=False,
        ),
        f"{mean.caption} {one_run(sides)}",
    )


@st.cache_data(show_spinner="Running both models …", max_entries=64)
def _lens_differences(key: tuple[Any, ...], _sides: Sides, how: str) -> Measurement:
    first, second = (look.opened for look in _sides.looks)
    return lens_differences(
        first.run, second.run, n=_sides.n, seed=0, how=how, step=first.step, second_step=second.step
    )


@address.fragment
def entropy(sides: Sides) -> None:
    with panel("Entropy by layer", "compare-entropy") as p:
        found = pair(sides, "entropy")
        show(p, sides, found, f"{found.first.caption} {one_run(sides)}")


@address.fragment
def mechanisms(sides: Sides) -> None:
    with panel("How often each mechanism's claim holds", "compare-mechanisms") as p:
        own = [name for name in MECHANISMS if why_not(sides, name) is None]
        if not own:
            st.info("No claim about a mechanism can be tested on both: choose runs of a task that has some.")
            return
        names = {name: pair(sides, name).first.name for name in own}
        name = choose("Claim", own, "compare_claim", own[0], names.__getitem__)
        picture = st.container()
        with picture:
            found = pair(sides, name)
            whose = "Of each side, its head with the most attention on the task's graph. " if found.of_best_head else ""
            show(p, sides, found, f"{found.first.caption} {whose}{one_run(sides)}", by_condition=True)


@address.fragment
def accuracy(sides: Sides) -> None:
    with panel("Right answers by condition", "compare-accuracy") as p:
        found = pair(sides, "accuracy")
        one, other = found.first.dims[0], found.second.dims[0]
        if one != other:
            st.info(f"A's answers are told apart by {one}, B's by {other}, so there is nothing to subtract.")
            return
        show(p, sides, found, f"{found.first.caption} Each is predicted from true tokens. {one_run(sides)}")


def main() -> None:
    sides = choose_sides(current())
    if sides is None:
        return
    if sides.one_model and sides.one_input:
        st.info("Both sides are the same: choose another run, checkpoint or input for B.")
        return
    if sides.one_model:
        st.info("Both sides are one model, so that only the two inputs are held against each other.")
    for part in (answers, canvases, lenses, entropy, mechanisms, accuracy):
        part(sides)


main()
