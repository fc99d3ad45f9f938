"""What pages that draw a canvas share: the token in focus, and the numbers behind the drawing."""

from __future__ import annotations

from typing import Any

from workbench.app.fields import widgets as fields
from workbench.app.fields.values import belongs_to_run, put
from workbench.app.fields.widgets import position_in
from workbench.app.state import Look
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual import projection
from workbench.measurement import Measurement

belongs_to_run("focus")


def choose_focus(n_pos: int, place: Any) -> int | None:
    """A field for the token whose edges alone are drawn."""
    return position_in("Only edges of token", n_pos, "focus", None, place)


def focus_on(position: int | None, now: int | None) -> None:
    """For a click on a token: draw its edges alone; on a second click all edges again.

    Args:
        position: the token's; None on Escape.
        now: the token whose edges are drawn alone.
    """
    put("focus", None if position == now else position)


def every_layer(look: Look, place: Any) -> bool:
    """Whether all layers of a deep model are asked for, in whose place some are drawn (`projection.some_points`)."""
    subject = look.opened.subject
    deep = len(projection.some_points(subject)) < len(projection.from_embedding(subject))
    return deep and fields.toggle("Every layer", "every_layer", place)


def numbers(look: Look, layer: int, head: int, which: str, basis: str) -> dict[str, Measurement]:
    """File name -> what a canvas of this head is drawn from: its matrices up to the one drawn, and the cells."""
    matrices = attention_graph.matrices(look.seen, 0, layer, head, n_hops=attention_graph.hop_of(which) or 1)
    points = projection.from_embedding(look.seen.subject)
    table = projection.top_tokens(look.seen, top=1, points=points, bases=(basis,))
    return {"attention": matrices, "residual": table}
