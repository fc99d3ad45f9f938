"""Matrix entropy of the input at every point of the residual."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.capture import Capture
from workbench.instruments import entropy


def show(seen: Capture) -> None:
    st.subheader("Entropy by layer")
    left, middle, right = st.columns(3)
    alpha = left.selectbox("Order α", [0.5, 1.0, 2.0, 3.0, float("inf")], index=1, format_func=_order)
    centre = middle.toggle("Centre the tokens first")
    unit_rows = right.toggle("Scale tokens to unit length")
    measured = entropy.measure(seen, alpha=alpha, centre=centre, unit_rows=unit_rows).mean("example")
    st.plotly_chart(figures.entropy({seen.subject.name: measured}), key="entropy")
    st.caption(measured.caption)


def _order(alpha: float) -> str:
    return "∞" if alpha == float("inf") else f"{alpha:g}"
