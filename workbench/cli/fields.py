"""Settings as they are written on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.util.settings import place, value_of


def parse_fields(arguments: Sequence[str]) -> dict[str, Any]:
    """`--task.n 64 --batch-size=32` as `{"task": {"n": 64}, "batch_size": 32}`. Values are JSON, or else text.

    Raises:
        ValueError: if an argument is not a field, or has no value.
    """
    fields: dict[str, Any] = {}
    rest = list(arguments)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        if not name.startswith("--"):
            raise ValueError(f"unrecognised argument {name!r}; fields are given as --name value")
        if not equals and (not rest or rest[0].startswith("--")):
            raise ValueError(f"{name} needs a value")
        inner, last = place(fields, name.removeprefix("--").replace("-", "_"))
        value = value_of(text if equals else rest.pop(0))
        if isinstance(inner.get(last), dict) and isinstance(value, str):
            value = {**inner[last], "variant": value}
        elif last in inner:
            raise ValueError(f"{name} is given twice")
        inner[last] = value
    return fields


def parse_condition(text: str) -> tuple[str, Any]:
    """`length=16` as `("length", 16)`. Raises ValueError if there is no `=`."""
    name, equals, value = text.partition("=")
    if not equals or value.startswith("="):
        raise ValueError(f"a condition is NAME=VALUE, such as length=16, not {text!r}")
    return name, value_of(value)
