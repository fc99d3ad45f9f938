"""One way to turn a name into an object, so that every wrong name gets the same helpful answer."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from workbench.validation import brief

T = TypeVar("T")


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Return `table[name]`.

    Raises:
        ValueError: if there is no such name; the message says what exists and what was probably meant.
    """
    if isinstance(name, str) and name in table:
        return table[name]
    near = get_close_matches(brief(name, 100), table, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(brief(f"unknown {kind} {name!r}{hint}; there is: {', '.join(sorted(table))}"))
