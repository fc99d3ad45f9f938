"""The input with its truth above, one head's attention below it, and the residual at every layer."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields import url
from workbench.app.fields import widgets as fields
from workbench.app.fields.heads import choose_matrix, cost_of
from workbench.app.fields.widgets import first_drawn
from workbench.app.panels import canvas as canvases
from workbench.app.panels import cell as cells
from workbench.app.panels import code, how_it_works, questions
from workbench.app.panels.edit import answer_to_click, clicked, cut_by_click, move_by_drag, try_an_edit
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.next_token import next_token
from workbench.app.panels.panel import Panel, panel
from workbench.app.state import Look, current
from workbench.figures.token_page import right_at
from workbench.instruments.residual import projection
from workbench.interventions import Head
from workbench.judgement.words.by_place import answered

SAYS = (
    "Hover a token to see what it reads; click a cell, a token, or an edge, which is then cut; drag an edge to another "
    "key; arrow keys move the cell. A cell shows the residual's top token there (decoder basis: after the final norm), "
    "underlined where it is right, which does not show that the model uses it."
)


@url.fragment
def canvas(look: Look) -> None:
    first = st.container()
    drawing, inspector = cells.drawing_and_cell()
    with inspector:
        cell = cells.tokens(look)
    head = None
    if look.opened.subject.task.running_text:
        with first:
            head = next_token(look, cell[1])
    with drawing:
        is_edited = draw(look, cell, head)
    if is_edited:
        inspector.caption("This panel is of the run without the edit.")
    try_an_edit(look)


def draw(look: Look, cell: cells.Cell, begin_with: Head | None) -> bool:
    """The panel of the drawing and its fields; it begins with a head, by default with the one that answers need.

    Returns whether it shows an edit.
    """
    with panel("Canvas", "canvas") as p:
        settings = choose_settings(look, p, begin_with)
        picture, answer, caption = st.container(), st.empty(), st.container()
        layer, head, task = settings["layer"], settings["head"], look.opened.subject.task
        edited = clicked(look)
        behind: dict[str, Any] = {} if edited is None else {"edited": edited}
        p.show(
            code.call(figures.canvas, code.seen(look), **settings, cell=cell, **behind, **noted()),
            canvases.numbers(look, layer, head, settings["which"], settings["basis"]),
            SAYS,
            verdict=" ".join(filter(None, (cost_of(look, (layer, head)), answered(right_at(look.seen), task)))),
            place=picture,
            under=caption,
            cell=cells.move,
            token=lambda position: canvases.focus_on(position, settings["query"]),
            edge=lambda query, key: cut_by_click(look, layer, head, query, key),
            move=lambda query, key, to: move_by_drag(look, layer, head, query, key, to),
        )
        if edited is not None:
            answer_to_click(edited, answer)
    return edited is not None


def noted() -> dict[str, Any]:
    """The numbers of the notes on this page, as an argument of `figures.canvas`; nothing where there are none."""
    return {"notes": questions.numbers()} if questions.numbers() else {}


def choose_settings(look: Look, p: Panel, head: Head | None) -> dict[str, Any]:
    """The fields of the drawing, beside the panel's title and below it, as arguments of `figures.canvas`."""
    n_pos = len(projection.sequence(look.seen, 0))
    layer, chosen = choose_head(look, needed=True, first=head)
    place = p.settings()
    with place:
        which = choose_matrix(look)
    points = projection.from_embedding if canvases.every_layer(look, place) else None
    return {
        **({} if points is None else {"points": code.call(points, code.seen(look).subject)}),
        "layer": layer,
        "head": chosen,
        "which": which,
        "basis": fields.segments("Basis of the cells", projection.BASES, "basis", "decoder", place),
        "threshold": fields.slide("Hide edges under", 0.01, 0.5, "threshold", 0.05, 0.01, place, format="percent"),
        "query": canvases.choose_focus(n_pos, place),
        "start": first_drawn(n_pos),
    }


look = current(attention=True)
canvas(look)
if not look.opened.subject.task.running_text:  # of which no claim is measured
    how_it_works.show(look)
