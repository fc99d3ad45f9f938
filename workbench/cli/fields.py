"""Settings as they are written on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def parse_fields(arguments: Sequence[str]) -> dict[str, Any]:
    """`--task.n 64 --batch-size=32` as `{"task": {"n": 64}, "batch_size": 32}`. Values are JSON, or else text.

    Raises:
        ValueError: if an argument is not a field, or has no value.
    """
    fields: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name, given, text = rest.pop(0).partition("=")
        if not name.startswith("--"):
            raise ValueError(f"unrecognised argument {name!r}; fields are given as --name value")
        if not given and (not rest or rest[0].startswith("--")):
            raise ValueError(f"{name} needs a value")
        *parents, last = name.removeprefix("--").replace("-", "_").split(".")
        inner = fields
        for parent in parents:
            if isinstance(inner.get(parent), str):  # a variant's name, and now one of its settings
                inner[parent] = {"variant": inner[parent]}
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name} is given, and {parent} as a value too")
        value = value_of(text if given else rest.pop(0))
        if isinstance(inner.get(last), dict) and isinstance(value, str):
            value = {**inner[last], "variant": value}
        elif last in inner:
            raise ValueError(f"{name} is given twice")
        inner[last] = value
    return fields


def value_of(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def setting(text: str) -> tuple[str, Any]:
    name, given, value = text.partition("=")
    if not given:
        raise ValueError(f"a condition is NAME=VALUE, such as length=16, not {text!r}")
    return name, value_of(value)
