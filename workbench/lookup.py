"""One way to turn a name into an object, so that every wrong name gets the same helpful answer."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Return `table[name]`.

    Raises:
        ValueError: if there is no such name; the message says what exists and what was probably meant.
    """
    if name in table:
        return table[name]
    near = get_close_matches(str(name), table, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"unknown {kind} {name!r}{hint}; there is: {', '.join(sorted(table))}")
