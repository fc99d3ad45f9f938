"""Pydantic's errors as one line for people."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError


def one_line(error: ValidationError, model: type[Any]) -> str:
    """The first thing that is wrong: which field, what was got, what was expected or what exists.

    Args:
        error: what pydantic raised.
        model: the pydantic model or dataclass that was being made.
    """
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        *parents, name = map(str, first["loc"])
        fields = list(_fields(model, parents))
        near = get_close_matches(name, fields, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"unknown field {where!r}{hint}; there is: {', '.join(fields) or 'none'}"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"]) if "ctx" in first else first["msg"]
    got = "" if first["type"] == "missing" else f", not {first['input']!r}"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}{got}"


def _fields(model: type[Any], parents: Iterable[str]) -> dict[str, Any]:
    """The fields of the model that lies at a path of field names below another."""
    for name in parents:
        model = _fields(model, ())[name].annotation
    fields = "model_fields" if hasattr(model, "model_fields") else "__pydantic_fields__"
    return dict(getattr(model, fields, {}))
