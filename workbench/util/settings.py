"""Settings as people write them: dotted names, and values as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """`{"task": {"n": 8}}` as `("task.n", 8)`. Something with its defaults alone is there as True.

    Of attention it is `model.attention.NAME` where all layers are the same, else `model.attention.0.NAME` and so on.
    """
    for name, value in settings.items():
        if name == "attention" and isinstance(value, list | tuple) and value:
            same = all(layer == value[0] for layer in value)
            value = value[0] if same else {str(number): layer for number, layer in enumerate(value)}
        if isinstance(value, Mapping):
            if prefix == "objectives." and not value:
                yield f"{prefix}{name}", True
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", tuple(value) if isinstance(value, list) else value
