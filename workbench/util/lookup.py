"""Look-up by name with a helpful error, numbers after names that occur twice, and names that become files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeVar

from workbench.util.messages import brief

T = TypeVar("T")

LONGEST_NAME = 100  # bytes, which leaves room for what is put before and behind it
_NAME = re.compile(r'\w([^/\\:*?"<>|]*[^/\\:*?"<>|. ])?')  # what every file system takes


def lookup(table: Mapping[str, T], name: str, kind: str, meant: Mapping[str, str] | None = None) -> T:
    """Return `table[name]`.

    Args:
        table: what there is.
        name: the one that is asked for.
        kind: what it is the name of, in words.
        meant: a name that others use for it -> what it is here; else the name most like it in spelling is offered.

    Raises:
        ValueError: if there is no such name; the message says what exists and what was probably meant.
    """
    if isinstance(name, str) and name in table:
        return table[name]
    near = [(meant or {}).get(str(name)), *get_close_matches(brief(name, 100), table, n=1)]
    hint = next((f" (did you mean {other!r}?)" for other in near if other), "")
    raise ValueError(brief(f"unknown {kind} {name!r}{hint}; there is: {', '.join(sorted(table)) or 'none'}"))


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


def check_name(name: str, what: str, taken: Iterable[str] = ()) -> None:
    """Raise ValueError unless a name can be that of one file or folder, in the folder that it is put into.

    Called wherever a name becomes a part of a path, whoever wrote it.

    Args:
        name: the name.
        what: what it is the name of, in words.
        taken: the names of what else is written there.
    """
    if not _NAME.fullmatch(name) or not name.isprintable() or len(os.fsencode(name)) > LONGEST_NAME:
        raise ValueError(
            f"{brief(repr(name), 100)} cannot be the name of {what}, which names a file: it begins with a letter, a "
            f'digit or _, has no sign of / \\ : * ? " < > |, no . or space at its end, and {LONGEST_NAME} bytes at most'
        )
    if name.casefold() in map(str.casefold, taken):
        raise ValueError(f"{name!r} cannot be the name of {what}: a file or folder beside it has that name already")
