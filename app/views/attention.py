"""One head's attention on the input, as a matrix and as a graph, beside the task's gold edges."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.capture import Capture
from workbench.instruments import attention_graph


def show(seen: Capture) -> None:
    st.subheader("Attention against the task's graph")
    subject = seen.subject
    n_heads = attention_graph.pattern(seen, 0).shape[1]
    heads = [(layer, head) for layer in range(subject.n_layers) for head in range(n_heads)]
    left, right = st.columns(2)
    chosen = left.selectbox("Head", heads, format_func=lambda lh: f"layer {lh[0]}, head {lh[1]}", key="head")
    matrices = attention_graph.matrices(seen, 0, *chosen)
    names = list(matrices.coords["matrix"])
    which = right.selectbox("Matrix", names, key="matrix", format_func=_matrix_name)
    gold = attention_graph.gold_edges(seen, 0)
    hops = 1 if which == "pattern" else None if which == "resolvent" else names.index(which) + 1
    shown = gold if hops is None else [edge for edge in gold if edge[0] == hops]
    st.plotly_chart(figures.attention_arcs(matrices, which, shown), key="arcs")
    st.plotly_chart(figures.attention_matrix(matrices, which, gold), key="matrix-map")
    st.caption(f"{matrices.caption} Gold edges are the task's truth; the model never sees them.")


def _matrix_name(name: str) -> str:
    return {"pattern": "pattern A (one hop)", "resolvent": "what the layer applies (all hops)"}.get(name, name)
