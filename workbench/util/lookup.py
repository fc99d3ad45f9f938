"""Look-up by name with a helpful error, and numbers after names that occur twice."""

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
    """The names in their order, with a number after each that equals an earlier one: `a`, `a (2)`.

    Names that differ only in upper and lower case count as equal, because some file systems take them for one. A number
    never turns a name into another of the names.

    Args:
        names: the names; several may be equal.
        taken: names that none of the results may equal.
        number: the format of a numbered name.
    """
    wanted, used = {name.casefold() for name in names}, {name.casefold() for name in taken}
    results = []
    for name in names:
        numbered, count = name, 1
        while numbered.casefold() in used or (count > 1 and numbered.casefold() in wanted):
            count += 1
            numbered = number.format(name, count)
        used.add(numbered.casefold())
        results.append(numbered)
    return results


def check_told_apart(names: Sequence[str], what: str) -> None:
    """Raise ValueError if two names are equal apart from upper and lower case."""
    seen: dict[str, str] = {}
    for name in names:
        if name.casefold() in seen:
            raise ValueError(f"two {what} would be named {seen[name.casefold()]!r} and {name!r}")
        seen[name.casefold()] = name
