"""Pydantic's errors as one line for people."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic import ValidationError


def one_line(error: ValidationError, fields: Iterable[str]) -> str:
    """The first thing that is wrong: which field, what was got, what was expected or what exists.

    Args:
        error: what pydantic raised.
        fields: the names of the fields that exist at the top level.
    """
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        name = str(first["loc"][-1])
        near = get_close_matches(name, list(fields), n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        exists = f"; there is: {', '.join(fields)}" if len(first["loc"]) == 1 else ""
        return f"unknown field {where!r}{hint}{exists}"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"]) if "ctx" in first else first["msg"]
    got = "" if first["type"] == "missing" else f", not {first['input']!r}"
    return f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}{got}"
