"""Sentences made of parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def capitalised(text: str) -> str:
    """A text with its first letter in upper case, and the rest as it is."""
    return text[:1].upper() + text[1:]


def uncapitalised(text: str) -> str:
    """A text with its first letter in lower case, and the rest as it is."""
    return text[:1].lower() + text[1:]


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def as_it_says(result: Any) -> str:
    """What a result says, for its `__repr__`: a notebook's cell may end in it."""
    return str(result.says)
