"""Settings as people write them: dotted names, and values as text."""

from __future__ import annotations

import json
from typing import Any


def value_of(text: str) -> Any:
    """JSON, or else the text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def as_text(value: Any) -> str:
    """A value as it is written in names, tables and conditions."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def place(nested: dict[str, Any], name: str) -> tuple[dict[str, Any], str]:
    """Where a dotted name's value goes: the mapping that holds it, made if need be, and its last part.

    A variant's name on the way there stands for its settings.

    Raises:
        ValueError: if another value is in the way.
    """
    *parents, last = name.split(".")
    for parent in parents:
        if isinstance(nested.get(parent), str):
            nested[parent] = {"variant": nested[parent]}
        nested = nested.setdefault(parent, {})
        if not isinstance(nested, dict):
            raise ValueError(f"{name} is given, and {parent} as {nested!r} too")
    return nested, last
