"""The cell of the residual in focus, which several pages share: it is in the URL, and a click on a drawing moves it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures
from workbench.app.fields.values import belongs_to_run, put
from workbench.app.fields.widgets import choose, position_in
from workbench.app.panels.code import assign, call, seen, value_of
from workbench.app.panels.panel import panel
from workbench.app.state import Look
from workbench.instruments.residual import projection
from workbench.interventions import point_in_words
from workbench.judgement.words.by_place import tops

belongs_to_run("point", "position")


Cell = tuple[str, int]
"""A point of the residual, by its hook name, and a position."""


def drawing_and_cell() -> tuple[Any, Any]:
    """Two places, beside one another where there is room: for a drawing, and for what is behind its cell in focus."""
    row = st.container(horizontal=True, key="columns")
    return row.container(key="columns-drawing"), row.container(key="columns-inspector")


def tokens(look: Look, *, how: projection.How = "raw", final_norm: bool = True) -> Cell:
    """The panel of the cell in focus, by default the model's last answer, and of the tokens behind it on both bases.

    Returns the cell.
    """
    points = projection.from_embedding(look.opened.subject)
    n_pos = len(projection.sequence(look.seen, 0))
    with panel("Tokens behind the cell", "cell") as p:
        row = st.container(horizontal=True, key="cell-fields")
        left, right = row.container(width=190), row.container(width=140)
        point = choose("Layer and point", points, "point", points[-1], point_in_words, left)
        position = position_in("Position", n_pos, "position", default_position(look, n_pos), right)
        assert position is not None
        table = assign(
            "table",
            projection.top_tokens,
            seen(look),
            top=min(5, len(look.opened.subject.encoder)),
            how=how,
            final_norm=final_norm,
            points=[point],
        )
        figure = call(figures.projection_bars, table, point, position)
        verdict = tops(value_of(table), point, position)
        place, says = row.container(width=540), value_of(table).caption
        p.show(figure, {"tokens": table}, says, verdict=verdict, place=place, under=st.container())
    return point, position


def move(point: str, position: int) -> None:
    """Move the focus to a clicked cell; its fields fall back to the default if this input has no such cell."""
    put("point", point)
    put("position", position)


def default_position(look: Look, n_pos: int) -> int:
    """The last position whose answer is scored; of running text the last, after which the next token comes."""
    if look.opened.subject.task.running_text:
        return n_pos - 1
    scored = look.batch.loss_mask[0].nonzero()[:, 0].tolist()
    return min(scored[-1], n_pos - 1) if scored else n_pos - 1
