"""Fields whose options depend on the run and the input; what they hold is in the URL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import streamlit as st

from workbench.figures.token_page import WIDEST

T = TypeVar("T")

OF_AN_EDIT = (
    *("edit_kind", "edit_layer", "edit_head", "edit_by", "edit_query", "edit_key", "edit_point", "edit_position"),
    *("edit_other", "edit_other_position", "edit_first", "edit_second", "edit_basis", "edit_start"),
)
"""The fields of the panel that tries an edit."""

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
    *OF_HOPS,
    *OF_AN_EDIT,
)
"""Fields that mean something else in another run, and start anew there."""


def choose(
    label: str,
    options: Sequence[T],
    key: str,
    default: T,
    format_func: Callable[[Any], str] = str,
    place: Any = st,
    help: str | None = None,
    width: int | Literal["stretch"] = "stretch",
) -> T:
    """A select box, in the URL in the words shown; what it held for another input goes where it is no option.

    Where the default is another one than before, a field that held the default holds the new one.
    """
    before = st.session_state.get(f"{key}-default", default)
    if key in st.session_state and (st.session_state[key] not in options or st.session_state[key] == before != default):
        del st.session_state[key]
    st.session_state[f"{key}-default"] = default
    chosen: T = place.selectbox(
        label,
        options,
        index=list(options).index(default),
        key=key,
        format_func=format_func,
        bind="query-params",
        help=help,
        width=width,
    )
    return chosen


def position_in(
    label: str,
    n_pos: int,
    key: str,
    default: int | None,
    place: Any = st,
    help: str | None = None,
    every: str = "every token",
) -> int | None:
    """A field for a position of the input, in the URL; empty, which means `every`, where the default is None."""
    kept = st.session_state.get(key)
    if kept is not None and not 0 <= kept < n_pos:
        del st.session_state[key]
    chosen: int | None = place.number_input(
        label, 0, n_pos - 1, value=default, key=key, placeholder=every, bind="query-params", help=help
    )
    return chosen


def first_drawn(n_pos: int, key: str = "start", default: int | None = None, place: Any = st) -> int:
    """A slider for the first position of a drawing that holds `WIDEST` of them; none, and 0, where all of them fit.

    It stands at the end of the input, or at `default`.
    """
    last = n_pos - WIDEST
    if last <= 0:
        return 0
    kept = st.session_state.get(key)
    if kept is not None and not 0 <= kept <= last:
        del st.session_state[key]
    label, standing = f"First position drawn: {WIDEST} of {n_pos} fit", last if default is None else min(last, default)
    chosen: int = place.slider(label, 0, last, standing, key=key, bind="query-params")
    return chosen


def forget_other_run(path: str) -> None:
    """On a change of the run, its fields start at their defaults."""
    before = st.session_state.get("run_before")
    if before not in (None, path):
        for key in OF_A_RUN:
            st.session_state.pop(key, None)
    st.session_state["run_before"] = path


def start_anew(key: str, owner: object, default: Any) -> None:
    """Put a field back to its default where what the default belongs to has changed: the layer of a γ."""
    before = st.session_state.get(f"{key}_before")
    if before not in (None, owner):
        st.session_state[key] = default
    st.session_state[f"{key}_before"] = owner
