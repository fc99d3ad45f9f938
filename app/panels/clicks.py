"""Clicks on a drawing: its cells, tokens and edges, and the arrow keys, each lead to a callback of the page.

On the canvas a click on a cell moves the cell in focus (`panels.cell.move`), a click on a token draws its edges alone
(`panels.canvas.focus_on`), and a click on an edge cuts it in the panel "Try an edit" (`panels.edit.cut_by_click`), and
one that is dragged to another key is moved there. In a circuit a click on an edge cuts it, or takes it in
(`views/circuit.py`). In a map of the weights a click on a cell shows how it comes about (`views/weights.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from workbench.figures import Drawing, scripts


@st.cache_resource(show_spinner=False)
def _component() -> Any:
    return st.components.v2.component("workbench_clickable", js=scripts.script("clicks"), css=scripts.style())


def clickable(
    drawing: Drawing,
    key: str,
    *,
    cell: Callable[[str, int], None] | None = None,
    token: Callable[[int | None], None] | None = None,
    edge: Callable[[int, int], None] | None = None,
    move: Callable[[int, int, int], None] | None = None,
    name: Callable[[str], None] | None = None,
) -> None:
    """Show a drawing that can be clicked.

    A browser may send anything: the types are checked here, and the callbacks check whether there is such a place.

    Args:
        drawing: what to show.
        key: of the element.
        cell: called with the hook name and the position of a cell that is clicked or reached by the arrow keys; in a
            map with the row, as a word, and the column.
        token: called with the position of a token that is clicked, None on Escape.
        edge: called with the query and the key of an edge of attention that is clicked.
        move: called with the query and the key of an edge that is dragged, and with the position it is dropped on.
        name: called with the name of anything else that is clicked, such as an edge of a circuit.
    """
    _component()(
        data={"svg": drawing.svg(), "more": dict(drawing.data) or None},
        key=key,
        on_cell_change=lambda: _call(cell, _sent(key, "cell"), point=str, position=int),
        on_token_change=lambda: _call(token, _sent(key, "token"), position=int | None),
        on_edge_change=lambda: _call(edge, _sent(key, "edge"), query=int, key=int),
        on_move_change=lambda: _call(move, _sent(key, "move"), query=int, key=int, to=int),
        on_name_change=lambda: _call(name, _sent(key, "name"), name=str),
    )


def _sent(key: str, kind: str) -> dict[str, Any]:
    """What the browser sent of this kind of click."""
    value = st.session_state[key].get(kind)
    return value if isinstance(value, dict) else {}


def _call(callback: Callable[..., None] | None, sent: dict[str, Any], **types: Any) -> None:
    """Call back with the values of these names, if each has its type."""
    values = [sent.get(name) for name in types]
    if callback is not None and all(
        isinstance(value, kind) for value, kind in zip(values, types.values(), strict=True)
    ):
        callback(*values)
