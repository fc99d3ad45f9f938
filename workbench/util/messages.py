"""Error messages: one short line, without control characters that a terminal would obey."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

LONGEST = 800


def harmless(text: str) -> str:
    """A text whose control and invisible characters are spelt out: it moves no cursor and hides nothing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def brief(text: object, longest: int = LONGEST) -> str:
    """A text as one harmless line; of one that is too long, the beginning and the end."""
    return _cut(harmless(_cut(" ".join(str(text).split()), longest)), longest)


def _cut(text: str, longest: int) -> str:
    end = longest // 3
    return text if len(text) <= longest else f"{text[: longest - end - 3]} … {text[-end:]}"


@contextmanager
def in_one_line() -> Iterator[None]:
    """For what reads files that anyone may have written: whatever is wrong with them is a ValueError of one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(brief(f"cannot read {error.filename}: {error.strerror}")) from None
    except ValueError as error:
        raise ValueError(brief(error)) from None


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
        return brief(f"unknown field {where!r}{hint}; there is: {', '.join(fields) or 'none'}")
    if first["type"] == "value_error":
        return brief(first["ctx"]["error"] if "ctx" in first else first["msg"])
    got = "" if first["type"] == "missing" else f", not {first['input']!r}"
    return brief(f"{where}: {first['msg'][0].lower()}{first['msg'][1:]}{got}")


def _fields(model: type[Any], parents: Iterable[str]) -> dict[str, Any]:
    """The fields of the model that lies at a path of field names below another."""
    for name in parents:
        model = _fields(model, ())[name].annotation
    fields = "model_fields" if hasattr(model, "model_fields") else "__pydantic_fields__"
    return dict(getattr(model, fields, {}))
