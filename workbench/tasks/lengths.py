"""Sequence lengths: the training lengths of the task-hinting paper, and the lengths of test sets."""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Int
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task

Skew = Literal["uniform", "paper"]


def tested_lengths(task: str, low: int, high: int, longest: int | None) -> list[int]:
    """The lengths of a task's test sets: `high`, and about 8 lengths evenly spaced from `low` to `longest`.

    Raises:
        ValueError: if `low` is above `high`, or `high` above `longest`.
    """
    if low > high:
        raise ValueError(f"{task} needs min_length <= max_length, not {low} > {high}")
    if longest is not None and longest < high:
        raise ValueError(
            f"{task} tests at least the lengths it trains on, but test_max_length={longest} is below max_length={high}"
        )
    span = torch.linspace(low, longest or high, 8).round().long().tolist()
    return sorted({*span, high})


class TaskWithLengths(Task):
    """The base of tasks that train on some lengths, test on longer ones, and may have hints."""

    min_length: int = Field(2, ge=1, le=LONGEST, description="shortest training sequence")
    max_length: int = Field(16, ge=1, le=LONGEST, description="longest training sequence")
    test_max_length: int | None = Field(
        None, ge=1, le=LONGEST, description="longest test sequence; by default max_length"
    )
    skew: Skew = "uniform"
    hints: tuple[str, ...] = Field((), description="auxiliary tasks to train on too")

    @property
    def drawn(self) -> str:
        """With the training lengths, since tests go beyond them."""
        return f"{super().drawn}, of length {self.min_length} to {self.max_length}"

    @field_validator("hints", mode="before")
    @classmethod
    def _names_may_stand_alone(cls, value: Any) -> Any:
        return value.split(",") if isinstance(value, str) else value

    @model_validator(mode="after")
    def _lengths_fit(self) -> TaskWithLengths:
        _ = self.conditions
        return self

    @property
    def longest(self) -> int:
        """The length of the longest test sequence."""
        return self.test_max_length or self.max_length

    @property
    def heads(self) -> dict[str, int]:
        return dict.fromkeys(self.hints, len(self.vocabulary))

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.longest + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        lengths = tested_lengths(self.name, self.min_length, self.max_length, self.test_max_length)
        return tuple({"length": length} for length in lengths)

    def draw_lengths(
        self, n: int, length: int | None, *, edge: int, generator: torch.Generator
    ) -> Int[Tensor, " batch"]:
        """Training lengths: uniform, or (`paper`) 80 % uniform up to `edge` and 20 % uniform in the rest.

        With `length`, all are that. Raises ValueError if it does not fit the context.
        """
        if length is not None:
            if not 1 <= length <= self.longest:
                raise ValueError(f"length must be between 1 and {self.longest}, not {length}")
            return torch.full((n,), length)
        low, high = self.min_length, self.max_length
        if self.skew == "uniform" or low == high:
            return torch.randint(low, high + 1, (n,), generator=generator)
        edge = max(low, min(high - 1, edge))
        short = torch.randint(low, edge + 1, (n,), generator=generator)
        long = torch.randint(edge + 1, high + 1, (n,), generator=generator)
        return torch.where(torch.rand(n, generator=generator) < 0.8, short, long)
