"""Clicks on a drawing: its cells, tokens and edges, and the arrow keys, each lead to a callback of the page.

On the canvas a click on a cell moves the cell in focus (`panels.cell.move`), a click on a token draws its edges alone
(`panels.canvas.focus_on`), and a click on an edge cuts it in the panel "Try an edit" (`panels.edit.change_edge`), and
one that is dragged to another key is moved there. In a circuit a click on an edge cuts it, or takes it in
(`views/circuit.py`). In a map of the weights a click on a cell shows how it comes about (`views/weights.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from workbench.figures import Drawing, scripts


@st.cache_resource(show_spinner=False)
def component(name: str, js: str, css: str = "") -> Any:
    """A part of the page with a script of its own, made once."""
    return st.components.v2.component(name, js=js, css=css or None)


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

    def call(kind: str, callback: Callable[..., None] | None, **types: Any) -> None:
        sent = st.session_state[key].get(kind)  # by the browser, under these names
        values = [sent.get(name) if isinstance(sent, dict) else None for name in types]
        if callback is not None and all(map(isinstance, values, types.values())):
            callback(*values)

    component("workbench_clickable", scripts.source("clicks"), scripts.source("style"))(
        data={"svg": drawing.svg(), "more": dict(drawing.data) or None},
        key=key,
        on_cell_change=lambda: call("cell", cell, point=str, position=int),
        on_token_change=lambda: call("token", token, position=int | None),
        on_edge_change=lambda: call("edge", edge, query=int, key=int),
        on_move_change=lambda: call("move", move, query=int, key=int, to=int),
        on_name_change=lambda: call("name", name, name=str),
    )


def film(drawing: Drawing, key: str, at: int | None = None) -> None:
    """Show a drawing through training, which the page moves through by itself: every checkpoint's picture is sent once.

    Args:
        drawing: `figures.training_film(…)`.
        key: of the element.
        at: the frame that is shown first; by default the last.
    """
    still = "[data-cell], [data-token], [data-edge] { cursor: default; }"  # nothing here can be clicked
    shown = component("workbench_film", scripts.source("film"), f"{scripts.source('style')}\n{still}")
    shown(data={**drawing.data, "at": at}, key=key)
