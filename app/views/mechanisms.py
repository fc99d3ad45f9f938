"""How often the claims about this task's mechanisms hold, over a fresh sample, each beside its control."""

from __future__ import annotations

import streamlit as st

from app import state
from workbench import figures
from workbench.instruments import Measurement, mismatched
from workbench.mechanisms import MECHANISMS
from workbench.seeds import generator

N = 256


def show(opened: state.Opened, head: tuple[int, int]) -> None:
    claims = [name for name, claim in MECHANISMS.items() if claim.why_not(opened.subject) is None]
    if not claims:
        return
    st.subheader("Mechanisms")
    weights = opened.run.path / "weights.safetensors"
    pairs = _scores(str(opened.run.path), weights.stat().st_mtime_ns, opened)
    pairs = [(_of_head(score, head), _of_head(control, head)) for score, control in pairs]
    st.plotly_chart(figures.mechanisms({opened.run.name: pairs}), key="mechanisms")
    st.caption(f"Over {N} fresh sequences. " + " ".join(score.caption for score, _ in pairs))


@st.cache_data(show_spinner="Measuring mechanisms on fresh sequences …", max_entries=8)
def _scores(_path: str, _version: int, _opened: state.Opened) -> list[tuple[Measurement, Measurement]]:
    """(score, control) of every claim."""
    seen = _opened.see(_opened.subject.task.sample(N, generator(0, "explorer")))
    other = mismatched(seen, generator(0, "explorer control"))
    pairs = []
    for claim in MECHANISMS.values():
        if claim.why_not(_opened.subject) is None:
            pairs.append((claim.score(seen).mean("example"), claim.score(other).mean("example")))
    return pairs


def _of_head(measured: Measurement, head: tuple[int, int]) -> Measurement:
    """The part of the head chosen for the attention panel, where a claim is made of every head."""
    return measured.select(layer=head[0], head=head[1]) if "head" in measured.dims else measured
