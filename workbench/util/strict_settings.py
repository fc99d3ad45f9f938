"""The base class of all settings: pydantic models that are frozen and strict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from workbench.util.messages import first_problem, half_character


def true_is_no_number(annotation: Any, value: Any) -> Any:
    """The value, unless it is true or false where the field takes numbers: pydantic would take true for 1.

    Args:
        annotation: the type of the field.
        value: what was given for it.

    Raises:
        PydanticCustomError: with pydantic's words for what is not a number.
    """
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    if any(isinstance(item, bool) for item in items):
        accepted = _types_in(annotation)
        if bool not in accepted and accepted & {int, float}:
            raise PydanticCustomError("no_number", "Input should be a number")
    return value


def _types_in(annotation: Any) -> set[Any]:
    """The types that an annotation is made of: `list[int] | None` is made of int and None."""
    if get_origin(annotation) is Literal:
        return set()
    parts = get_args(annotation)
    return set().union(*map(_types_in, parts)) if parts else {annotation if isinstance(annotation, type) else None}


class Checked(BaseModel):
    """Settings that anyone may write: unknown names, infinite numbers, and booleans for numbers are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        return true_is_no_number(cls.model_fields[str(info.field_name)].annotation, value)

    @field_validator("*", mode="before")
    @classmethod
    def _no_half_characters(cls, value: Any) -> Any:
        """JSON can write them, and Python reads a path of another encoding so; no config can be written with one."""
        if isinstance(value, str) and half_character(value):
            raise PydanticCustomError(
                "half_character",
                "Input should have whole characters (of a path with others than ASCII: set PYTHONUTF8=1)",
            )
        return value


C = TypeVar("C", bound=Checked)


def checked(kind: type[C], data: Mapping[str, Any], where: str = "") -> C:
    """Settings from plain data. Raises ValueError in one line if one is wrong, which begins with `where`."""
    try:
        return kind.model_validate(dict(data))
    except ValidationError as error:
        raise ValueError(where + first_problem(error, kind)) from None
