"""Error messages for people: one short line, with control characters spelt out so that no terminal obeys them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError

from workbench.util.words import uncapitalised

LONGEST = 800  # characters
_MARKUP = re.compile(
    r"(?P<interval>\[[-−+<>\d., %]+\](?![(\[:]))"  # numbers in brackets, which are no link
    r"|[\\`*\[\]|{}$~@#]|<(?![\d\s=])|&(?=[#\w])|:(?=//)|(?<=www)\.|(?<!\w)_|_(?!\w)"
    r"|^>(?!\d)|^[!?:]|^[-+](?=[-+\s]|$)|^\d(?=\d*[.)](?:\s|$))"  # what would begin a block
)


class Notice(UserWarning):
    """A warning for who uses the library, in one line, which the command line prints as such."""


def harmless(text: str) -> str:
    """The text with control and invisible characters spelt out, as `\\x1b`: printed, it moves no cursor."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def in_markdown(text: object) -> str:
    """The text as one line that Markdown, its tables and HTML show as it is, whoever wrote it."""
    line = harmless(" ".join(str(text).split()))
    return _MARKUP.sub(lambda found: found[0] if found["interval"] else f"&#{ord(found[0])};", line)


def half_character(text: str) -> str | None:
    """The first half of a surrogate pair in a text, which JSON can write and no tokenizer reads; None without one."""
    return next((character for character in text if "\ud800" <= character <= "\udfff"), None)


def check_characters(text: str, what: str) -> None:
    """Raise ValueError if a text has a `half_character`."""
    if half := half_character(text):
        raise ValueError(
            f"{what} has {harmless(half)}, which is half of a character: write both halves, or the character itself"
        )


def brief(text: object, longest: int = LONGEST) -> str:
    """The text as one `harmless` line; of a text that is too long, only the beginning and the end are kept."""
    return _cut(harmless(_cut(" ".join(str(text).split()), longest)), longest)


def _cut(text: str, longest: int) -> str:
    end = longest // 3
    return text if len(text) <= longest else f"{text[: longest - end - 3]} … {text[-end:]}"


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors of reading a file, whose text may quote what a stranger wrote, into a ValueError of one line."""
    try:
        yield
    except OSError as error:
        raise ValueError(brief(f"cannot read {error.filename}: {error.strerror}")) from None
    except ValueError as error:
        raise ValueError(brief(error)) from None


def first_problem(error: ValidationError, model: type[Any]) -> str:
    """The first problem in a validation error: which field, what was got, and what was expected or exists.

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
    return brief(f"{where}: {uncapitalised(first['msg'])}{got}")


def _fields(model: type[Any], parents: Iterable[str]) -> dict[str, Any]:
    """The fields of a model; with `parents`, of the model that is reached through these fields."""
    for name in parents:
        fields_here = _fields(model, ())
        # What is not a field is a place in a tuple of models.
        model = fields_here[name].annotation if name in fields_here else get_args(model)[0]
    fields = "model_fields" if hasattr(model, "model_fields") else "__pydantic_fields__"
    return dict(getattr(model, fields, {}))
