"""The URL of a page: it always has what every field holds, so that a view is a link.

Streamlit can bind fields to the URL by itself, but leaves out a field that equals its default. Here a default often
depends on the data (the head with the most mass on this input's paths), so a URL without it would show something else
elsewhere. And in Streamlit a session's fields win over the parameters of a link. So this module does it: each field
says what it holds (`note`), the URL is written once at the end of a script run, and what comes from outside (a first
load, a link, the browser's back button) is taken before any default. Only what is empty, off or None is left out:
that is what a field without a parameter holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from secrets import token_hex
from typing import Any, ParamSpec

import streamlit as st
from streamlit.runtime.scriptrunner import RerunException, StopException, get_script_run_ctx

from workbench.app import state

P = ParamSpec("P")
Parameters = dict[str, list[str]]
WHOLE = "whole"  # in a link that has every field of its page: what it leaves out is empty, whatever the session has


@dataclass
class Memory:
    """What a session remembers of its fields and its URL.

    Attributes:
        page: the page that was shown last.
        written: the URL's parameters, as far as the server knows.
        known: hashes of every URL of the session; a browser that lags behind sends one of them again.
        arrived: parameters that came with a link, until their field takes them.
        fresh: fields that take their default when they are next made.
        held: what every field held last, also on other pages.
        defaults: the default that each had.
        made: what each widget was made with; a browser takes one made with anything else for a new widget.
        shown: the parameters of the fields that are on the page.
        fields_of: fragment -> its fields, so that those it no longer makes leave the URL.
        collecting: the fields made so far by the fragments that are running, the outermost first.
        whole: whether the whole page is being made, not one fragment of it.
    """

    page: str | None = None
    written: Parameters = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    arrived: Parameters = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    held: dict[str, Any] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    shown: Parameters = field(default_factory=dict)
    fields_of: dict[str, set[str]] = field(default_factory=dict)
    collecting: list[set[str]] = field(default_factory=list)
    whole: bool = False


def memory() -> Memory:
    """What the session remembers."""
    session: Memory = st.session_state.setdefault("address", Memory())
    return session


@contextmanager
def of_page(name: str) -> Iterator[None]:
    """Make a whole page: first take what came with the URL, and at the end write the URL.

    Args:
        name: of the page.
    """
    session = memory()
    _arrive(session, name)
    before, done = session.shown, False
    session.shown, session.fields_of, session.collecting, session.whole = {}, {}, [], True
    try:
        with errors_alone():
            yield
        done = True
    except StopException:  # a page that has said why it shows no more
        done = True
        raise
    finally:
        session.whole = False
        if done:
            _write(session)
        else:  # a newer run takes over, and writes
            session.shown = before | session.shown


@contextmanager
def errors_alone() -> Iterator[None]:
    """Turn what is no `Exception`, such as a tokenizer's panic, into one: it would end the page's thread, unsaid."""
    try:
        yield
    except (Exception, RerunException, StopException):
        raise
    except BaseException as error:
        raise RuntimeError(f"{type(error).__name__}: {error}") from error


def _arrive(session: Memory, page: str) -> None:
    """Take the parameters of a URL that this session did not write itself: from a link, or the back button."""
    now = {key: st.query_params.get_all(key) for key in st.query_params}
    context = get_script_run_ctx()
    back = context is not None and context.is_history_navigation
    moved = page != session.page
    if moved or back or _hash(now) not in session.known:
        if session.page is None or back or not moved or WHOLE in now:  # the URL is the whole view: the rest is empty
            session.fresh |= set(session.held) - set(now)
            session.arrived = {key: values for key, values in now.items() if key != WHOLE}
        else:  # a link gives some fields, the session has the rest
            session.arrived |= now
        session.written = now
        session.known.add(_hash(now))
    session.page = page


def _hash(parameters: Parameters) -> int:
    return hash(frozenset((key, tuple(values)) for key, values in parameters.items()))


def _write(session: Memory) -> None:
    if session.shown != session.written:
        session.written = dict(session.shown)
        session.known.add(_hash(session.written))
        st.query_params.from_dict(session.written)


def whole_view(query: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """The parameters of a link to a page exactly as it was, followed also where the page is open with other fields."""
    return {**query, WHOLE: token_hex(3)}  # the session takes no URL twice, but may well be led here twice


def note(key: str, values: list[str]) -> None:
    """Put what a field holds into the URL; nothing if it is empty, off or None."""
    session = memory()
    for fields in session.collecting:
        fields.add(key)
    if values:
        session.shown[key] = values
    else:
        session.shown.pop(key, None)


def fragment(function: Callable[P, None]) -> Callable[P, None]:
    """`st.fragment` for functions that make fields: when the fragment runs alone, it writes the URL at its end."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> None:
        which = [value for value in args if isinstance(value, str)]  # the same function may make several
        session, name = memory(), ".".join((function.__module__, function.__qualname__, *which))
        before, now = session.fields_of.get(name, set()), set[str]()
        alone = not session.whole and not session.collecting
        session.collecting = [*session.collecting, now]
        try:
            with errors_alone():
                function(*args, **kwargs)
        except Exception as error:
            state.tell_if_gone(error)
        finally:
            session.collecting = session.collecting[:-1]
        session.fields_of[name] = now
        for key in before - now:
            session.shown.pop(key, None)
        if alone:
            _write(session)

    return st.fragment(inside)  # type: ignore[no-any-return]
