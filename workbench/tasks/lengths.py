"""How long sequences are: the skewed training lengths of the task-hinting paper, and the lengths that tests use."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Int
from torch import Tensor

Skew = Literal["uniform", "paper"]


def draw_lengths(
    n: int, low: int, high: int, skew: Skew, *, edge: int, generator: torch.Generator
) -> Int[Tensor, " batch"]:
    """Lengths in low..high: equally likely, or (`paper`) 80 % equally in low..edge and 20 % equally in the rest."""
    if skew == "uniform" or low == high:
        return torch.randint(low, high + 1, (n,), generator=generator)
    edge = max(low, min(high - 1, edge))
    short = torch.randint(low, edge + 1, (n,), generator=generator)
    long = torch.randint(edge + 1, high + 1, (n,), generator=generator)
    return torch.where(torch.rand(n, generator=generator) < 0.8, short, long)


def tested_lengths(task: str, low: int, high: int, longest: int | None, sets: int = 8) -> list[int]:
    """The lengths of a task's test sets: about `sets` from shortest to longest, with max_length.

    Raises:
        ValueError: if the three lengths do not fit one another.
    """
    if low > high:
        raise ValueError(f"{task} needs min_length <= max_length, not {low} > {high}")
    if longest is not None and longest < high:
        raise ValueError(
            f"{task} tests at least the lengths it trains on, but test_max_length={longest} is below max_length={high}"
        )
    span = torch.linspace(low, longest or high, sets).round().long().tolist()
    return sorted({*span, high})
