"""One head's attention on the input, as a graph and as a matrix, beside the task's gold edges."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.capture import Capture
from workbench.inspection import MOST_HOPS
from workbench.instruments import attention_graph

Head = tuple[int, int]


def show(seen: Capture) -> Head:
    """Draw the panel; returns the layer and head chosen."""
    st.subheader("Attention against the task's graph")
    _start_at_best_head(seen)
    left, right = st.columns(2)
    head: Head = left.selectbox("Head", _heads(seen), key="head", format_func=lambda lh: f"layer {lh[0]}, head {lh[1]}")
    matrices = attention_graph.matrices(seen, 0, *head, n_hops=min(max(1, seen.truth.n_hops), MOST_HOPS))
    names = list(matrices.coords["matrix"])
    which = right.selectbox("Matrix", names, key="matrix", format_func=_matrix_name)
    gold = attention_graph.gold_edges(seen, 0)
    hops = 1 if which == "pattern" else None if which == "resolvent" else names.index(which) + 1
    shown = gold if hops is None else [edge for edge in gold if edge[0] == hops]
    st.plotly_chart(figures.attention_arcs(matrices, which, shown), key="arcs")
    st.plotly_chart(figures.attention_matrix(matrices, which, gold), key="matrix-map", width="content")
    st.caption(
        f"{matrices.caption} Gold edges are the task's truth, which the model never sees; the graph compares with "
        "those as many hops away as the matrix walks. Where a head looks does not show what it reads there, nor that "
        "it matters."
    )
    return head


def _heads(seen: Capture) -> list[Head]:
    n_heads = attention_graph.pattern(seen, 0).shape[1]
    return [(layer, head) for layer in range(seen.subject.n_layers) for head in range(n_heads)]


def _start_at_best_head(seen: Capture) -> None:
    """On a run just opened, choose the head with the most mass on this input's gold paths."""
    if st.session_state.get("head_of") == seen.subject.name:
        return
    st.session_state["head_of"] = seen.subject.name
    has_graph = len(seen.truth.edges) > 0
    best = attention_graph.best_head(attention_graph.measure(seen)) if has_graph else _heads(seen)[0]
    st.session_state["head"] = best
    st.session_state["matrix"] = "pattern"


def _matrix_name(name: str) -> str:
    return {"pattern": "pattern A (one hop)", "resolvent": "all that the layer applies (every hop)"}.get(name, name)
