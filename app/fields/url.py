"""The page's address and what its fields hold: every field is in the address, always, so that a view is a link.

Streamlit's own binding of fields to the address leaves out what equals a field's default. Here a default is often a
thing of the data (the head with the most mass on this input's paths), so an address without it would show something
else elsewhere. And within a session its fields win over a link's parameters. So this does it by itself: fields say
what they hold (`note`), the address is written once at the end of a run, and what comes from outside (a first load, a
link, the browser's way back) is taken before any default. Left out is only what is empty, off or None: that is what
a field without a parameter holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from streamlit.runtime.scriptrunner import StopException, get_script_run_ctx

P = ParamSpec("P")
R = TypeVar("R")
Parameters = dict[str, list[str]]


@dataclass
class Memory:
    """What a session remembers of its fields and its address.

    Attributes:
        page: that was shown last.
        written: the address, as far as the server knows.
        known: every address of the session, as hashes: a browser that is behind sends one of them again.
        arrived: parameters that came with a link, until their field takes them.
        fresh: fields that start at their default when they are next made.
        held: what every field held last, also on other pages.
        defaults: the default that each had.
        made: what each widget was made with; made with anything else it is another one in the browser.
        shown: the parameters of the fields that are on the page.
        fields_of: fragment -> its fields, by which those that it makes no more leave the address.
        collecting: the fields made so far by the fragments under way, the outermost first.
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
    found: Memory = st.session_state.setdefault("address", Memory())
    return found


@contextmanager
def of_page(name: str) -> Iterator[None]:
    """While a whole page is made: first what came with the address is taken, at the end the address is written.

    Args:
        name: of the page.
    """
    own = memory()
    _arrive(own, name)
    before, done = own.shown, False
    own.shown, own.fields_of, own.collecting, own.whole = {}, {}, [], True
    try:
        yield
        done = True
    except StopException:  # a page that has said why it shows no more
        done = True
        raise
    finally:
        own.whole = False
        if done:
            _write(own)
        else:  # a newer run takes over, and writes
            own.shown = before | own.shown


def _arrive(own: Memory, page: str) -> None:
    """Take an address that the browser did not have from this session, or was sent to by a link or the way back."""
    now = {key: st.query_params.get_all(key) for key in st.query_params}
    context = get_script_run_ctx()
    back = context is not None and context.is_history_navigation
    moved = page != own.page
    if moved or back or _hash(now) not in own.known:
        if own.page is None or back or not moved:  # it is the whole view: what it leaves out is empty
            own.fresh |= set(own.held) - set(now)
            own.arrived = dict(now)
        else:  # a link says some of it, the session has the rest
            own.arrived |= now
        own.written = now
        own.known.add(_hash(now))
    own.page = page


def _hash(parameters: Parameters) -> int:
    return hash(frozenset((key, tuple(values)) for key, values in parameters.items()))


def _write(own: Memory) -> None:
    if own.shown != own.written:
        own.written = dict(own.shown)
        own.known.add(_hash(own.written))
        st.query_params.from_dict(own.written)


def note(key: str, values: list[str]) -> None:
    """Say what a field holds, for the address; nothing where that is empty, off or None."""
    own = memory()
    for fields in own.collecting:
        fields.add(key)
    if values:
        own.shown[key] = values
    else:
        own.shown.pop(key, None)


def fragment(function: Callable[P, R]) -> Callable[P, R]:
    """`st.fragment` for what makes fields: where it is made alone, the address is written at its end."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> R:
        own, name = memory(), f"{function.__module__}.{function.__qualname__}"
        before, now = own.fields_of.get(name, set()), set[str]()
        alone = not own.whole and not own.collecting
        own.collecting = [*own.collecting, now]
        try:
            result = function(*args, **kwargs)
        finally:
            own.collecting = own.collecting[:-1]
        own.fields_of[name] = now
        for key in before - now:
            own.shown.pop(key, None)
        if alone:
            _write(own)
        return result

    return st.fragment(inside)  # type: ignore[no-any-return]
