"""What a field holds, in which order that is decided, and how the browser and the URL come to know it.

A browser goes on showing a field's old value until the server assigns a new one: forgetting the session's value, or
changing the default, does not reach the browser. So each field is made through `settle`, which assigns the value
whenever it is not what the browser already shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import streamlit as st

from workbench.app.fields.url import memory, note

T = TypeVar("T")

OF_A_RUN: set[str] = set()  # fields that start at their defaults on a change of the run


def belongs_to_run(*keys: str) -> tuple[str, ...]:
    """Declare fields that mean something else in another run, and so start anew there; called beside the fields."""
    OF_A_RUN.update(keys)
    return keys


def settle(
    key: str,
    default: Any,
    read: Callable[[list[str]], Any],
    fits: Callable[[Any], bool],
    made: Any = None,
) -> None:
    """Decide what a field holds, and tell the browser where it cannot know.

    The value that came with the URL wins. Next comes the default: if the field is to start anew, if it held the old
    default, or if its value is not possible any more. Otherwise the field keeps what it holds.

    Args:
        key: of the field.
        default: what it starts at.
        read: the value that a parameter of the URL stands for. ValueError if there is none.
        fits: whether a value is possible in this field.
        made: what the widget is made with; if that changes, the browser takes it for another widget.
    """
    session = memory()
    text = session.arrived.pop(key, None)
    there = key in st.session_state
    value = st.session_state[key] if there else session.held.get(key, default)
    if text is not None:
        value = _read(text, read, fits, default)
    elif key in session.fresh or not fits(value) or _is(value, session.defaults.get(key, default)):
        value = default
    session.fresh.discard(key)
    made = (session.page, made)
    if not there or session.made.get(key) != made or not _is(st.session_state[key], value):
        st.session_state[key] = value
    session.defaults[key], session.made[key] = default, made


def _read(text: list[str], read: Callable[[list[str]], Any], fits: Callable[[Any], bool], default: Any) -> Any:
    try:
        value = read(text)
    except (ValueError, OverflowError):
        return default
    return value if fits(value) else default


def _is(value: Any, other: Any) -> bool:
    """Whether two values are equal and of one type: True is not 1."""
    return type(value) is type(other) and bool(value == other)


def hold(key: str, value: T, words: Iterable[str]) -> T:
    """Remember what a field holds, and put it into the URL."""
    memory().held[key] = value
    note(key, [word for word in words if word])
    return value


def listed(key: str) -> tuple[list[str], int]:
    """The names selected in a table, which is not a field: from the URL, or else as before.

    Returns them, and how often a URL has given them.
    """
    session, counter = memory(), f"{key}_times"
    if key in session.arrived or key in session.fresh:
        session.held[key] = session.arrived.pop(key, [])
        session.fresh.discard(key)
        st.session_state[counter] = st.session_state.get(counter, 0) + 1
    return session.held.get(key, []), st.session_state.get(counter, 0)


def keep(key: str, names: list[str]) -> list[str]:
    """Remember the names selected in a table, and put them into the URL."""
    return hold(key, names, names)


def put(key: str, value: Any) -> None:
    """Set a field, from a click elsewhere."""
    session = memory()
    session.arrived.pop(key, None)
    session.fresh.discard(key)
    session.defaults.pop(key, None)  # else a value that equals the old default would follow the new default
    session.held[key] = st.session_state[key] = value


def start_anew(keys: Iterable[str], owner: object, name: str) -> None:
    """Let fields start at their defaults if what they belong to (a run, an input, a layer) has changed.

    A value from the URL still wins over the default.

    Args:
        keys: the fields.
        owner: what they belong to.
        name: the name under which the owner is remembered.
    """
    before = st.session_state.get(f"{name}_before")
    if before not in (None, owner):
        memory().fresh |= set(keys)
    st.session_state[f"{name}_before"] = owner
