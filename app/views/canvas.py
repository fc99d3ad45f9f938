"""The input with its truth above, one head's attention below it, and the residual at every layer."""

from __future__ import annotations

from functools import partial
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
from workbench.app.panels.edit import answer_to_click, change_edge, clicked, try_an_edit
from workbench.app.panels.head_grid import choose_head
from workbench.app.panels.next_token import next_token
from workbench.app.panels.panel import panel
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
    n_pos, seen = len(projection.sequence(look.seen, 0)), code.seen(look)
    with panel("Canvas", "canvas") as p:
        layer, head = choose_head(look, needed=True, first=begin_with)
        place = p.settings()
        with place:
            which = choose_matrix(look)
        more: dict[str, Any] = {}
        if canvases.every_layer(look, place):
            more["points"] = code.call(projection.from_embedding, seen.subject)
        basis = fields.choose("Basis of the cells", projection.BASES, "basis", "decoder", place=place, by="row")
        threshold = fields.slide("Hide edges under", 0.01, 0.5, "threshold", 0.05, 0.01, place, format="percent")
        query, start = canvases.choose_focus(n_pos, place), first_drawn(n_pos)
        settings = {"layer": layer, "head": head, "which": which, "basis": basis, "threshold": threshold}
        picture, answer, caption = st.container(), st.empty(), st.container()
        if (edited := clicked(look)) is not None:
            more["edited"] = edited
        if notes := questions.numbers():  # of what a question says of this page
            more["notes"] = notes
        verdict = cost_of(look, (layer, head)), answered(right_at(look.seen), look.opened.subject.task)
        p.show(
            code.call(figures.canvas, seen, **settings, query=query, start=start, cell=cell, **more),
            canvases.numbers(look, layer, head, which, basis),
            SAYS,
            verdict=" ".join(filter(None, verdict)),
            place=picture,
            under=caption,
            cell=cells.move,
            token=lambda position: canvases.focus_on(position, query),
            edge=partial(change_edge, look, layer, head),
            move=partial(change_edge, look, layer, head),
        )
        if edited is not None:
            answer_to_click(edited, answer)
    return edited is not None


look = current(attention=True)
canvas(look)
if not look.opened.subject.task.running_text:  # of which no claim is measured
    how_it_works.show(look)
