"""One way to turn a name into an object, so that every wrong name gets the same helpful answer; and no name twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from workbench.util.messages import brief

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


def tell_apart(names: Sequence[str], taken: Sequence[str] = (), number: str = "{} ({})") -> list[str]:
    """The names in their order, those that a file system may take for an earlier one followed by a number.

    Alike are names that differ in their case alone. A number is never one that makes another of the names.

    Args:
        names: any, also several times the same.
        taken: names that none of them may have.
        number: how a name is numbered.
    """
    wanted, used, found = {name.casefold() for name in names}, {name.casefold() for name in taken}, []
    for name in names:
        own, count = name, 1
        while own.casefold() in used or (count > 1 and own.casefold() in wanted):
            count += 1
            own = number.format(name, count)
        used.add(own.casefold())
        found.append(own)
    return found


def check_told_apart(names: Sequence[str], what: str) -> None:
    """Raise ValueError if two are the same to a file system that does not tell upper from lower case."""
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"two {what} would be named {seen[name.casefold()]!r} and {name!r}")
        seen[name.casefold()] = name
