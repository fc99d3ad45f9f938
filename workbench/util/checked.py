"""Settings that check what they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


def true_is_no_number(annotation: Any, value: Any) -> Any:
    """A value for a field of this type; pydantic would take true for 1. Raises pydantic's error for a number."""
    given = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    if any(isinstance(one, bool) for one in given):
        takes = _within(annotation)
        if bool not in takes and takes & {int, float}:
            raise PydanticCustomError("no_number", "Input should be a number")
    return value


def _within(annotation: Any) -> set[Any]:
    """A type and all the types that it is made of."""
    if get_origin(annotation) is Literal:
        return set()
    parts = get_args(annotation)
    return set().union(*map(_within, parts)) if parts else {annotation if isinstance(annotation, type) else None}


class Checked(BaseModel):
    """Settings as anyone may write them: frozen, and strict about names, numbers without end, and what is a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        return true_is_no_number(cls.model_fields[str(info.field_name)].annotation, value)
