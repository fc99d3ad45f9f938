"""The residual on both bases: a map to click, and the tokens behind a cell."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.capture import Capture
from workbench.figures.style import point_name
from workbench.instruments import projection


def show(seen: Capture) -> None:
    st.subheader("Residual on both bases")
    table = projection.top_tokens(seen, top=min(8, len(seen.subject.encoder)))
    points, positions = list(table.coords["point"]), list(table.coords["position"])
    basis = st.segmented_control(
        "Map of the top token in the basis of the", projection.BASES, default="decoder", required=True
    )
    drawn = figures.projection_map(table, basis)
    event = st.plotly_chart(drawn, key="residual-map", on_select="rerun", selection_mode="points")
    _mirror_click(event, points, len(positions))
    left, right = st.columns(2)
    point = left.selectbox("Layer and point", points, key="point", format_func=_point_words)
    position = right.selectbox("Position", range(len(positions)), key="position", format_func=lambda i: positions[i])
    st.plotly_chart(figures.projection_bars(table, point, position), key="residual-bars")
    st.caption(f"Click a cell of the map to see its tokens on both bases. {table.caption}")


def _mirror_click(event: object, points: list[str], n_positions: int) -> None:
    """The clicked cell becomes the selected point and position, once per click."""
    st.session_state.setdefault("point", points[-1])
    st.session_state.setdefault("position", n_positions - 1)
    if st.session_state["point"] not in points or st.session_state["position"] >= n_positions:
        st.session_state["point"], st.session_state["position"] = points[-1], n_positions - 1
    clicked = event["selection"]["points"]  # type: ignore[index]
    cell = tuple(clicked[0]["customdata"]) if clicked and clicked[0].get("customdata") else None
    if cell is not None and cell != st.session_state.get("last_click"):
        st.session_state["point"], position = cell
        st.session_state["position"] = int(str(position).split(":")[0])
    st.session_state["last_click"] = cell


def _point_words(point: str) -> str:
    return f"{point_name(point)} ({'after attention' if point.endswith('mid') else 'after the MLP'})"
