"""A drawing that answers to hovering, clicks on cells, tokens and edges, and the arrow keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from workbench.figures import Drawing

Chosen = Callable[[Any], None]

_HERE = Path(__file__).parent


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    script, style = (_HERE / f"clickable.{kind}" for kind in ("js", "css"))
    return st.components.v2.component(
        "workbench_clickable", js=script.read_text(encoding="utf-8"), css=style.read_text(encoding="utf-8")
    )


def clickable(
    drawing: Drawing,
    key: str,
    *,
    cell: Callable[[str, int], None] | None = None,
    token: Callable[[int | None], None] | None = None,
    edge: Callable[[int, int], None] | None = None,
) -> None:
    """Show a drawing.

    What a browser sends back is checked by whoever is called: it may be anything of these types.

    Args:
        drawing: what to show.
        key: of the element.
        cell: called with the hook name and the position of a cell that is clicked or reached by the arrow keys.
        token: called with the position of a token that is clicked, None on Escape.
        edge: called with the query and the key of an edge that is clicked.
    """

    def sent(kind: str) -> Any:
        value = st.session_state[key].get(kind)
        return value if isinstance(value, dict) else {}

    def on_cell() -> None:
        point, position = sent("cell").get("point"), sent("cell").get("position")
        if cell is not None and isinstance(point, str) and isinstance(position, int):
            cell(point, position)

    def on_token() -> None:
        position = sent("token").get("position")
        if token is not None and (position is None or isinstance(position, int)):
            token(position)

    def on_edge() -> None:
        query, at = sent("edge").get("query"), sent("edge").get("key")
        if edge is not None and isinstance(query, int) and isinstance(at, int):
            edge(query, at)

    _component()(
        data={"svg": drawing.svg()}, key=key, on_cell_change=on_cell, on_token_change=on_token, on_edge_change=on_edge
    )
