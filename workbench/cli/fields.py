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
        if not given and not rest:
            raise ValueError(f"{name} needs a value")
        value = value_of(text if given else rest.pop(0))
        *parents, last = name.removeprefix("--").replace("-", "_").split(".")
        inner = fields
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{name} is given twice, as a value and as a group of fields")
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
