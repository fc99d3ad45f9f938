"""What comes next in a text: the likeliest tokens after a position, and the heads that the first of them rests on."""

from __future__ import annotations

from typing import Any

import streamlit as st

from workbench import figures, interventions
from workbench.app.fields.values import put
from workbench.app.panels import code
from workbench.app.panels.panel import panel
from workbench.app.state import Look
from workbench.interventions import Head, NextToken
from workbench.judgement.words.next_token import comes_next

SAYS = (
    "Left: the likeliest tokens after this position, given all before it. Right: how likely the first of them stays "
    "when a head writes nothing, grey with the head; a gradient chose which heads were removed. A click shows what the "
    "head reads. One text is a case, not a rate, and heads whose work others do as well do not show."
)
WORDS_BEFORE = 40  # letters of the text that are said


def next_token(look: Look, position: int) -> Head | None:
    """The panel; returns the head that the token rests on most, None where heads cannot be removed."""
    with panel("What comes next", "next") as p:
        found = code.assign(
            "following",
            interventions.next_token,
            code.hooked(look.opened),
            code.seen(look),
            position,
            computed_by=lambda hooked, seen, position: _found((*look.key, position), look, position),
        )
        value: NextToken = code.value_of(found)
        before = look.opened.subject.task.question(look.batch.tokens[0, : position + 1])
        before = before if len(before) <= WORDS_BEFORE else f"…{before[-WORDS_BEFORE:]}"
        numbers: dict[str, Any] = {"next": value.likeliest}
        numbers |= {} if value.without is None else {"without-heads": value.without}
        p.show(
            code.call(figures.next_token, found),
            numbers,
            SAYS,
            verdict=comes_next(value, before),
            cell=lambda layer, head: put("head", f"{int(layer)}.{head}"),
        )
    return value.heads[0] if value.heads else None


# A resource, not data: it is never changed.
@st.cache_resource(show_spinner="Removing heads …", max_entries=64)
def _found(key: tuple[object, ...], _look: Look, _position: int) -> NextToken:
    seen = _look.seen  # before the lock, which capturing takes too
    with _look.opened.lock:
        return interventions.next_token(_look.opened.hooked, seen, _position)
