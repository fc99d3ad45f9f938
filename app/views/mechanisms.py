"""How often the claims about this task's mechanisms hold: on this input, over held-out samples, and by length."""

from __future__ import annotations

import streamlit as st

from app.state import Opened
from app.views.attention import Head
from workbench import figures
from workbench.capture import Capture
from workbench.figures.curves import curves
from workbench.instruments import Measurement, mismatched
from workbench.mechanisms import MECHANISMS, Mechanism
from workbench.seeds import generator

N = 256
N_EACH = 64

Pair = tuple[Measurement, Measurement]


def show(opened: Opened, seen: Capture, head: Head) -> None:
    claims = {name: claim for name, claim in MECHANISMS.items() if claim.why_not(opened.subject) is None}
    if not claims:
        return
    st.subheader("Mechanisms")
    _on_this_input(claims, seen)
    pairs = [(_of_head(score, head), _of_head(control, head)) for score, control in _scores(opened.key, opened)]
    st.plotly_chart(figures.mechanisms({opened.run.name: pairs}), key="mechanisms")
    st.caption(f"Over {N} held-out sequences. " + " ".join(score.caption for score, _ in pairs))
    lines = _by_length(opened.key, opened)
    if lines:
        subtitle = f"{N_EACH} held-out sequences of each length; control: against other examples' truth; 95 % intervals"
        st.plotly_chart(curves(lines, "Mechanisms by length", "share of cases", subtitle), key="by-length")
        st.caption(
            "The same claims at each length the task is tested on. Long inputs leave more room for a claim to fail. A "
            "claim that holds says how an answer could be made, not that the model makes it so."
        )


def _on_this_input(claims: dict[str, Mechanism], seen: Capture) -> None:
    """The claims with one number a sequence."""
    scores = [claim.score(seen).mean("example") for claim in claims.values()]
    single = [score for score in scores if not score.dims]
    for column, score in zip(st.columns(len(single)) if single else [], single, strict=True):
        value = float(score.values)
        column.metric(f"{score.name}, on this input", "nothing to score" if value != value else f"{value:.0%}")


@st.cache_data(show_spinner="Measuring mechanisms on held-out sequences …", max_entries=8)
def _scores(key: tuple[str, int], _opened: Opened) -> list[Pair]:
    """(score, control) of every claim."""
    seen = _opened.capture(_opened.subject.task.sample(N, generator(0, "explorer"), split="test"))
    other = mismatched(seen, generator(0, "explorer control"))
    return [
        (claim.score(seen).mean("example"), claim.score(other).mean("example"))
        for claim in MECHANISMS.values()
        if claim.why_not(_opened.subject) is None
    ]


@st.cache_data(show_spinner="Measuring mechanisms by length …", max_entries=8)
def _by_length(key: tuple[str, int], _opened: Opened) -> dict[str, Measurement]:
    """The claims with one number a sequence, and their controls, over the lengths of the task's test sets."""
    task = _opened.subject.task
    lengths = [condition["length"] for condition in task.conditions if "length" in condition]
    found: dict[str, list[Measurement]] = {}
    for length in lengths:
        draws = generator(0, f"explorer length={length}")
        seen = _opened.capture(task.sample(N_EACH, draws, split="test", length=length))
        other = mismatched(seen, generator(0, "explorer control"))
        for claim in MECHANISMS.values():
            if claim.why_not(_opened.subject) is None:
                score, control = claim.score(seen).mean("example"), claim.score(other).mean("example")
                if not score.dims:
                    found.setdefault(score.name, []).append(score)
                    found.setdefault(f"{score.name}, control", []).append(control)
    return {name: Measurement.stack(parts, "length", lengths) for name, parts in found.items()}


def _of_head(measured: Measurement, head: Head) -> Measurement:
    """The part of the head chosen for the attention panel, where a claim is made of every head."""
    return measured.select(layer=head[0], head=head[1]) if "head" in measured.dims else measured
