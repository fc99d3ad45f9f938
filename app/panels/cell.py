"""The cell of the residual in focus, which several pages share: it is in the URL, and a click on a drawing moves it."""

from __future__ import annotations

import streamlit as st

from workbench import figures
from workbench.app.fields.values import belongs_to_run, put
from workbench.app.fields.widgets import choose, position_in
from workbench.app.panels.code import assign, call, seen, value_of
from workbench.app.panels.panel import panel
from workbench.app.state import Look
from workbench.instruments.residual import projection
from workbench.interventions import point_in_words

belongs_to_run("point", "position")


def chosen(look: Look) -> tuple[str, int]:
    """Two fields for the cell: its hook name and its position. By default the model's last answer."""
    points = projection.from_embedding(look.opened.subject)
    words = projection.sequence(look.seen, 0)
    left, right = st.columns([2, 2], width=560)
    point = choose("Layer and point", points, "point", points[-1], point_in_words, left)
    at = default_position(look, len(words))
    position = position_in("Position", len(words), "position", at, right)
    assert position is not None
    return point, position


def tokens(look: Look, point: str, position: int, *, how: projection.How = "raw", final_norm: bool = True) -> None:
    """The panel of the tokens behind the cell, on both bases."""
    with panel("Tokens behind the cell", "cell") as p:
        table = assign(
            "table",
            projection.top_tokens,
            seen(look),
            top=min(8, len(look.opened.subject.encoder)),
            how=how,
            final_norm=final_norm,
            points=[point],
        )
        figure = call(figures.projection_bars, table, point, position)
        p.show(figure, {"tokens": table}, value_of(table).caption)


def move(point: str, position: int) -> None:
    """Move the focus to a clicked cell; `chosen` falls back to the default if this input has no such cell."""
    put("point", point)
    put("position", position)


def default_position(look: Look, n_pos: int) -> int:
    """The last position whose answer is scored."""
    scored = look.batch.loss_mask[0].nonzero()[:, 0].tolist()
    return min(scored[-1], n_pos - 1) if scored else n_pos - 1
