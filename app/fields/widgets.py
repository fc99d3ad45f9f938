"""Every field of the explorer's pages: what it shows in the browser is what is used, and is in the URL."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st

from workbench.app.config_in_words import plain
from workbench.app.fields.url import memory, note
from workbench.app.fields.values import belongs_to_run, hold, put, settle
from workbench.figures.token_page import WIDEST

T = TypeVar("T")
LARGEST = 2**53 - 1  # whole number that a browser tells from its neighbours


def choose(
    label: str,
    options: Sequence[T],
    key: str,
    default: T,
    format_func: Callable[[Any], str] = str,
    place: Any = st,
    *,
    by: Literal["box", "row", "slider", "list"] = "box",
    **more: Any,
) -> T:
    """One of several options; the URL has its words. A value that is not among the options is dropped.

    If the default changes, a field that held the old default takes the new one.

    Args:
        label, options, key, default, place: of the field.
        format_func: an option in words.
        by: how it is chosen: from a select box, a row of all options, a slider over them in their order, or a list of
            them below one another.
        more: arguments of the widget: help, width, and of a list captions, some words under each option.
    """
    words, every = _settle_one(options, key, default, format_func), list(options)
    more |= {"key": key, "format_func": format_func}
    chosen: T
    match by:
        case "box":
            chosen = place.selectbox(label, every, index=every.index(default), **more)
        case "row":
            chosen = place.segmented_control(label, every, default=default, required=True, **more)
        case "slider":
            chosen = place.select_slider(label, every, value=default, **more)
        case "list":
            chosen = place.radio(label, every, index=every.index(default), label_visibility="collapsed", **more)
    return hold(key, chosen, [words[chosen]])


def clicked(options: Sequence[T], key: str, default: T, format_func: Callable[[Any], str] = str) -> T:
    """One of the options, which a drawing of them lets choose by clicks (`values.put`); else as `choose`."""
    words = _settle_one(options, key, default, format_func)
    chosen: T = st.session_state[key]
    return hold(key, chosen, [words[chosen]])


def choose_there(
    label: str, options: Sequence[str], key: str, default: str | None, place: Any = st, what: str = "run"
) -> str | None:
    """A select box of things that can disappear, such as runs: a missing one is named, and none replaces it.

    Args:
        label, options, key, default: as for `choose`; the default is taken if nothing was chosen.
        place: where it goes.
        what: the kind of thing.

    Returns:
        What is chosen; None if that is missing, with a message under the field.
    """
    session, missing = memory(), f"{key}_gone"
    if key in session.arrived:
        wanted = session.arrived[key][-1]
    elif key in session.fresh:
        wanted = None
    else:
        wanted = st.session_state.get(key) or session.held.get(key) or st.session_state.get(missing)
    gone = wanted if wanted and wanted not in options else None
    st.session_state[missing] = gone
    if gone is None:
        if wanted and st.session_state.get(key, wanted) is None:  # it has come back
            st.session_state[key] = wanted
        session.defaults[key] = default  # a new run at the head of the list must not replace the one that is shown
        _settle_one(options, key, default, str)
    else:
        session.arrived.pop(key, None)
        session.held[key] = st.session_state[key] = None
    index = list(options).index(default) if gone is None and default is not None else None
    chosen: str | None = place.selectbox(label, options, index=index, key=key, placeholder=f"Choose a {what}")
    if chosen is not None:
        return hold(key, chosen, [chosen])
    place.error(f"*{plain(str(gone))}* is not in this folder any more. Choose a {what}.")
    note(key, [str(gone)])
    return None


def _settle_one(options: Sequence[Any], key: str, default: Any, format_func: Callable[[Any], str]) -> dict[Any, str]:
    """Settle a field that holds one of the options; returns option -> its words."""
    words = {option: format_func(option) for option in options}

    def read(text: list[str]) -> Any:
        wanted = text[-1].casefold()
        same = (option for option, word in words.items() if wanted in (word.casefold(), str(option).casefold()))
        return next(same, _NOT_ONE)

    settle(key, default, read, lambda value: isinstance(value, Hashable) and value in words, tuple(words.values()))
    return words


_NOT_ONE = object()


def several(label: str, options: Sequence[str], key: str, most: int, placeholder: str) -> list[str]:
    """A field for some of the options."""

    def fits(value: Any) -> bool:
        return isinstance(value, list) and len(value) <= most and all(one in options for one in value)

    def read(text: list[str]) -> list[str]:
        unknown.extend(one for one in text if one not in options)
        return [one for one in dict.fromkeys(text) if one in options][:most]

    unknown: list[str] = []
    settle(key, [], read, fits, tuple(options))
    chosen: list[str] = st.multiselect(
        label, list(options), key=key, max_selections=most, select_all=False, placeholder=placeholder
    )
    if unknown:
        st.caption(f"Left out because they are not in this list: {plain(', '.join(unknown))}.")
    return hold(key, chosen, chosen)


def number(
    label: str,
    low: float,
    high: float | None,
    key: str,
    default: float | None,
    place: Any = st,
    **more: Any,
) -> Any:
    """A field for a number, which is an integer if `low` is one. The field starts empty if the default is None.

    Args:
        label: of the field.
        low, high: the smallest number, and the largest if there is one.
        key, default, place: of the field.
        more: arguments of the widget.
    """
    kind = type(low)

    def fits(value: Any) -> bool:
        if value is None:
            return default is None
        return type(value) is kind and low <= value <= (LARGEST if high is None else high)  # no NaN is

    settle(key, default, lambda text: kind(text[-1]), fits, (low, high, default is None))
    chosen = place.number_input(label, low, high, value=default, key=key, **more)
    return hold(key, chosen, [] if chosen is None else [_in_digits(chosen)])


def slide(
    label: str, low: float, high: float, key: str, default: float, step: float = 1, place: Any = st, **more: Any
) -> Any:
    """A slider over numbers, whole ones if `low` is."""
    kind = type(low)

    def fits(value: Any) -> bool:
        return type(value) is kind and low <= value <= high  # no NaN is

    settle(key, default, lambda text: kind(text[-1]), fits, (low, high, step))
    chosen = place.slider(label, low, high, default, step, key=key, **more)
    return hold(key, chosen, [_in_digits(chosen)])


def _in_digits(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def toggle(label: str, key: str, place: Any = st, help: str | None = None, default: bool = False) -> bool:
    """A switch, off by default."""
    settle(key, default, lambda text: text[-1].lower() == "true", lambda value: isinstance(value, bool))
    chosen: bool = place.toggle(label, value=default, key=key, help=help)
    return hold(key, chosen, [str(chosen).lower()] if chosen or default else [])


def pressed(label: str, key: str, place: Any = st) -> bool:
    """Whether a button was pressed, here or in the link; it is there until then."""
    settle(key, False, lambda text: text[-1].lower() == "true", lambda value: isinstance(value, bool))
    chosen: bool = st.session_state[key]
    if not chosen:
        place.button(label, key=f"{key}-press", on_click=put, args=(key, True))
    return hold(key, chosen, ["true"] if chosen else [])


def fold(label: str, key: str, default: bool = False) -> Any:
    """A part of the page that opens on a click; while its `open` is False, nothing need be made of it."""
    settle(key, default, lambda text: text[-1].lower() == "true", lambda value: isinstance(value, bool))
    box = st.expander(label, expanded=default, key=key, on_change="rerun")
    hold(key, bool(box.open), [str(bool(box.open)).lower()] if box.open or default else [])
    return box


def settings(place: Any, help: str = "What is measured and drawn, and how") -> Any:
    """A place behind a button for the fields that few change: the finding comes first."""
    return place.popover("Settings", icon=":material/tune:", help=help)


def text(label: str, key: str, placeholder: str, most: int, place: Any = st, **more: Any) -> str:
    """A field for a text of at most so many characters; spaces around it are dropped."""
    settle(key, "", lambda text: text[-1], lambda value: isinstance(value, str) and len(value) <= most)
    chosen = place.text_input(label, key=key, placeholder=placeholder, max_chars=most, **more)
    return hold(key, chosen or "", [chosen or ""]).strip()


def position_in(
    label: str,
    n_pos: int,
    key: str,
    default: int | None,
    place: Any = st,
    help: str | None = None,
    every: str = "every token",
) -> int | None:
    """A field for a position of the input; if the default is None the field may be empty, which means `every`."""
    chosen: int | None = number(label, 0, n_pos - 1, key, default, place, placeholder=every, help=help)
    return chosen


def first_drawn(n_pos: int, key: str = "start", default: int | None = None, place: Any = st) -> int:
    """A slider for the first position of a drawing, which has room for `WIDEST`; no slider, and 0, if all of them fit.

    It starts at the end of the input, or at `default`.
    """
    belongs_to_run("start")
    last = n_pos - WIDEST
    if last <= 0:
        return 0
    label = f"First position drawn ({WIDEST} of {n_pos} fit)"
    chosen: int = slide(label, 0, last, key, last if default is None else min(last, default), place=place)
    return chosen
