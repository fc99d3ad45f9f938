"""Every field of the explorer's pages: what it shows in the browser is what is used, and is in the address.

A browser keeps what a field shows until it is told another value: to forget the session's, or to change the default,
does not tell it. So each field is made through `_settled`, which assigns wherever the value is not the one that the
browser has from there or sent itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st

from workbench.app.fields.address import memory, note
from workbench.app.state import plain
from workbench.figures.token_page import WIDEST

T = TypeVar("T")
Width = int | Literal["stretch"]
LARGEST = 2**53 - 1  # whole number that a browser tells from its neighbours

OF_AN_EDIT = (
    *("edit_layer", "edit_head", "edit_by", "edit_query", "edit_key", "edit_point", "edit_position"),
    *("edit_other", "edit_other_position", "edit_first", "edit_second", "edit_basis", "edit_start"),
)
"""The fields of the panel that tries an edit, but for the kind of edit."""

OF_HOPS = ("other_run", "hops_powers", "hops_to")
"""The fields of the page of hops that depend on the run."""

OF_A_RUN = (
    "head",
    "matrix",
    "focus",
    "point",
    "position",
    "start",
    "probe_position",
    "probe_place",
    "edit_kind",
    *OF_HOPS,
    *OF_AN_EDIT,
)
"""Fields that mean something else in another run, and start anew there."""


def _settled(
    key: str,
    default: Any,
    read: Callable[[list[str]], Any],
    fits: Callable[[Any], bool],
    made: Any = None,
) -> None:
    """Decide what a field holds, and tell the browser where it cannot know.

    In this order: what came with the address; the default, where the field is to start anew, or held the default and
    that is another one now, or holds what is none of its values any more; what it holds.

    Args:
        key: of the field.
        default: what it starts at.
        read: the value that a parameter of the address stands for. ValueError for none.
        fits: whether a value is one of the field's.
        made: what the widget is made with; with anything else the browser takes it for another widget.
    """
    own = memory()
    text = own.arrived.pop(key, None)
    there = key in st.session_state
    value = st.session_state[key] if there else own.held.get(key, default)
    if text is not None:
        value = _read(text, read, fits, default)
    elif key in own.fresh or not fits(value) or _is(value, own.defaults.get(key, default)):
        value = default
    own.fresh.discard(key)
    made = (own.page, made)
    if not there or own.made.get(key) != made or not _is(st.session_state[key], value):
        st.session_state[key] = value
    own.defaults[key], own.made[key] = default, made


def _read(text: list[str], read: Callable[[list[str]], Any], fits: Callable[[Any], bool], default: Any) -> Any:
    try:
        value = read(text)
    except (ValueError, OverflowError):
        return default
    return value if fits(value) else default


def _is(value: Any, other: Any) -> bool:
    """Equal and of one type: True is not 1."""
    return type(value) is type(other) and bool(value == other)


def _held(key: str, value: T, words: Iterable[str]) -> T:
    """What a field was found to hold, remembered, and put into the address."""
    memory().held[key] = value
    note(key, [word for word in words if word])
    return value


def listed(key: str) -> tuple[list[str], int]:
    """The names that something which is no field is to show: those of the address, or of before; and how often an
    address has said which.
    """
    own, counter = memory(), f"{key}_times"
    if key in own.arrived or key in own.fresh:
        own.held[key] = own.arrived.pop(key, [])
        own.fresh.discard(key)
        st.session_state[counter] = st.session_state.get(counter, 0) + 1
    return own.held.get(key, []), st.session_state.get(counter, 0)


def keep(key: str, names: list[str]) -> list[str]:
    """Remember what that shows, and put it into the address."""
    return _held(key, names, names)


def put(key: str, value: Any) -> None:
    """Set a field, from a click elsewhere."""
    own = memory()
    own.arrived.pop(key, None)
    own.fresh.discard(key)
    own.defaults.pop(key, None)  # or what is set here could be taken for an old default
    own.held[key] = st.session_state[key] = value


def start_anew(keys: Iterable[str], owner: object, name: str) -> None:
    """Let fields start at their defaults where what they belong to is another one: a run, an input, a layer.

    What comes with the address is taken before any default.

    Args:
        keys: the fields.
        owner: what they belong to.
        name: what the owner is remembered under.
    """
    own = memory()
    before = st.session_state.get(f"{name}_before")
    if before not in (None, owner):
        own.fresh |= set(keys)
    st.session_state[f"{name}_before"] = owner


def forget_other_run(path: str) -> None:
    """On a change of the run, its fields start at their defaults."""
    start_anew(OF_A_RUN, path, "run")


def choose(
    label: str,
    options: Sequence[T],
    key: str,
    default: T,
    format_func: Callable[[Any], str] = str,
    place: Any = st,
    help: str | None = None,
    width: Width = "stretch",
) -> T:
    """A select box, in the address in the words shown; what it held for another input goes where it is no option.

    Where the default is another one than before, a field that held the default holds the new one.
    """
    words = _settle_one(options, key, default, format_func)
    chosen: T = place.selectbox(
        label, options, index=list(options).index(default), key=key, format_func=format_func, help=help, width=width
    )
    return _held(key, chosen, [words[chosen]])


def choose_there(
    label: str, options: Sequence[str], key: str, default: str | None, place: Any = st, what: str = "run"
) -> str | None:
    """A select box of things that can go, runs: one that is gone is named and none is taken in its place.

    Args:
        label, options, key, default: as for `choose`; the default is taken where nothing was chosen.
        place: where it goes.
        what: the kind of thing.

    Returns:
        What is chosen; None where that is gone, which is said under the field.
    """
    own, missing = memory(), f"{key}_gone"
    if key in own.arrived:
        wanted = own.arrived[key][-1]
    elif key in own.fresh:
        wanted = None
    else:
        wanted = st.session_state.get(key) or own.held.get(key) or st.session_state.get(missing)
    gone = wanted if wanted and wanted not in options else None
    st.session_state[missing] = gone
    if gone is None:
        if wanted and st.session_state.get(key, wanted) is None:  # it has come back
            st.session_state[key] = wanted
        own.defaults[key] = default  # a new run before it in the list is no reason to leave the one that is shown
        _settle_one(options, key, default, str)
    else:
        own.arrived.pop(key, None)
        own.held[key] = st.session_state[key] = None
    index = list(options).index(default) if gone is None and default is not None else None
    chosen: str | None = place.selectbox(label, options, index=index, key=key, placeholder=f"Choose a {what}")
    if chosen is not None:
        return _held(key, chosen, [chosen])
    place.error(f"*{plain(str(gone))}* is not in this folder any more. Choose a {what}.")
    note(key, [str(gone)])
    return None


def _settle_one(options: Sequence[Any], key: str, default: Any, format_func: Callable[[Any], str]) -> dict[Any, str]:
    """Settle a field that holds one of some options; the options' words."""
    words = {option: format_func(option) for option in options}

    def read(text: list[str]) -> Any:
        return next((option for option, word in words.items() if text[-1] in (word, str(option))), _NOT_ONE)

    _settled(key, default, read, lambda value: _hashable(value) and value in words, tuple(words.values()))
    return words


_NOT_ONE = object()


def _hashable(value: Any) -> bool:
    return value is _NOT_ONE or isinstance(value, str | int | float | tuple | None)


def segments(
    label: str,
    options: Sequence[str],
    key: str,
    default: str,
    place: Any = st,
    format_func: Callable[[Any], str] = str,
) -> str:
    """A row of options of which one is always chosen, in the address in the words shown."""
    words = _settle_one(options, key, default, format_func)
    chosen: str = place.segmented_control(
        label, list(options), default=default, key=key, required=True, format_func=format_func
    )
    return _held(key, chosen, [words[chosen]])


def along(label: str, options: Sequence[str], key: str, default: str, format_func: Callable[[Any], str] = str) -> str:
    """A slider over options in their order."""
    words = _settle_one(options, key, default, format_func)
    chosen: str = st.select_slider(label, list(options), value=default, key=key, format_func=format_func)
    return _held(key, chosen, [words[chosen]])


def several(label: str, options: Sequence[str], key: str, most: int, placeholder: str) -> list[str]:
    """A field for some of the options."""

    def fits(value: Any) -> bool:
        return isinstance(value, list) and len(value) <= most and all(one in options for one in value)

    def read(text: list[str]) -> list[str]:
        unknown.extend(one for one in text if one not in options)
        return [one for one in dict.fromkeys(text) if one in options][:most]

    unknown: list[str] = []
    _settled(key, [], read, fits, tuple(options))
    chosen: list[str] = st.multiselect(
        label, list(options), key=key, max_selections=most, select_all=False, placeholder=placeholder
    )
    if unknown:
        st.caption(f"Left out, as not among these: {plain(', '.join(unknown))}.")
    return _held(key, chosen, chosen)


def number(
    label: str,
    low: float,
    high: float | None,
    key: str,
    default: float | None,
    place: Any = st,
    **how: Any,
) -> Any:
    """A field for a number; empty where the default is None. It is a whole one where the least is.

    Args:
        label: of the field.
        low, high: the least, and the largest if there is one.
        key, default, place: of the field.
        how: of the widget.
    """
    kind = type(low)

    def fits(value: Any) -> bool:
        if value is None:
            return default is None
        return type(value) is kind and low <= value <= (LARGEST if high is None else high)  # no NaN is

    _settled(key, default, lambda text: kind(text[-1]), fits, (low, high, default is None))
    chosen = place.number_input(label, low, high, value=default, key=key, **how)
    return _held(key, chosen, [] if chosen is None else [_in_digits(chosen)])


def slide(
    label: str, low: float, high: float, key: str, default: float, step: float = 1, place: Any = st, **how: Any
) -> Any:
    """A slider over numbers, whole ones where the least is."""
    kind = type(low)

    def fits(value: Any) -> bool:
        return type(value) is kind and low <= value <= high  # no NaN is

    _settled(key, default, lambda text: kind(text[-1]), fits, (low, high, step))
    chosen = place.slider(label, low, high, default, step, key=key, **how)
    return _held(key, chosen, [_in_digits(chosen)])


def _in_digits(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def toggle(label: str, key: str, place: Any = st, help: str | None = None, default: bool = False) -> bool:
    """A switch, off at first unless by `default` it is on."""
    _settled(key, default, lambda text: text[-1].lower() == "true", lambda value: isinstance(value, bool))
    chosen: bool = place.toggle(label, value=default, key=key, help=help)
    return _held(key, chosen, [str(chosen).lower()] if chosen != default else [])


def text(label: str, key: str, placeholder: str, most: int, place: Any = st, **how: Any) -> str:
    """A field for a text of at most so many characters; without spaces around it."""
    _settled(key, "", lambda text: text[-1], lambda value: isinstance(value, str) and len(value) <= most)
    chosen = place.text_input(label, key=key, placeholder=placeholder, max_chars=most, **how)
    return _held(key, chosen or "", [chosen or ""]).strip()


def position_in(
    label: str,
    n_pos: int,
    key: str,
    default: int | None,
    place: Any = st,
    help: str | None = None,
    every: str = "every token",
) -> int | None:
    """A field for a position of the input; empty, which means `every`, where the default is None."""
    chosen: int | None = number(label, 0, n_pos - 1, key, default, place, placeholder=every, help=help)
    return chosen


def first_drawn(n_pos: int, key: str = "start", default: int | None = None, place: Any = st) -> int:
    """A slider for the first position of a drawing that holds `WIDEST` of them; none, and 0, where all of them fit.

    It stands at the end of the input, or at `default`.
    """
    last = n_pos - WIDEST
    if last <= 0:
        return 0
    label = f"First position drawn: {WIDEST} of {n_pos} fit"
    chosen: int = slide(label, 0, last, key, last if default is None else min(last, default), place=place)
    return chosen
