"""What the edges outside a circuit carry: what their writer wrote in the corrupted run, its mean, or another pair's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.circuits.comparison import Comparison
from workbench.circuits.rewired import writes
from workbench.tasks import Pairs

Outside = Literal["patch", "mean", "resample"]
IN_WORDS = {
    "patch": "what they carry in the corrupted run",
    "mean": "their mean over corrupted runs",
    "resample": "what they carry in another pair's corrupted run",
}


@dataclass(frozen=True)
class Ablation:
    """What the edges outside a circuit carry.

    Attributes:
        outside: `patch`, what their writer wrote in the pair's corrupted run; `mean`, its mean at that position over
            the corrupted runs of all pairs that have a token there; `resample`, what it wrote in another pair's
            corrupted run, drawn at random among those that are at least as long.
        generator: draws the other pairs of `resample`.
    """

    outside: Outside = "patch"
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if self.outside not in get_args(Outside):
            raise ValueError(f"unknown ablation {self.outside!r}; there is: {', '.join(get_args(Outside))}")
        if self.outside == "resample" and self.generator is None:
            raise ValueError("resample ablation draws other pairs: give it a generator")


@torch.no_grad()
def written_outside(
    comparison: Comparison, ablation: Ablation
) -> Iterator[tuple[slice, Pairs, Float[Tensor, "writer pair pos d_model"]]]:
    """The pairs in parts, and what the edges outside a circuit carry there.

    Raises:
        ValueError: if there is no other pair to resample.
    """
    mean = _mean_writes(comparison) if ablation.outside == "mean" else None
    order = _other_pairs(comparison.pairs, ablation.generator) if ablation.outside == "resample" else None
    for where, part in comparison.parts():
        tokens = part.corrupted.tokens
        if order is not None:
            tokens = comparison.pairs.corrupted.tokens[order[where]].to(comparison.device)
        yield where, part, writes(comparison, tokens) if mean is None else mean


def _other_pairs(pairs: Pairs, generator: torch.Generator | None) -> Int[Tensor, " pair"]:
    """For each pair the next in a random order whose corrupted run is as long as its clean one, or the longest other.

    What a shorter one writes at its padding is nothing that the model writes at a token.
    """
    n = len(pairs)
    if n < 2:
        raise ValueError("resample ablation needs at least two pairs")
    place = torch.empty(n, dtype=torch.long).scatter_(0, torch.randperm(n, generator=generator), torch.arange(n))
    needed, lengths = (pairs.real(side).sum(-1).cpu() for side in (pairs.clean, pairs.corrupted))
    itself = torch.eye(n, dtype=torch.bool)
    longest = lengths.expand(n, n).masked_fill(itself, 0).amax(1)
    unfit = itself | (lengths < torch.minimum(needed, longest)[:, None])
    return ((place - place[:, None]) % n).masked_fill(unfit, n).argmin(1)


def _mean_writes(comparison: Comparison) -> Float[Tensor, "writer 1 pos d_model"]:
    """The mean of every write at each position over the corrupted runs that have a token there."""
    total: Tensor | float = 0.0
    count: Tensor | float = 0.0
    for _, part in comparison.parts():
        real = part.real(part.corrupted)
        total = total + torch.where(real[..., None], writes(comparison, part.corrupted.tokens), 0.0).sum(1)
        count = count + real.sum(0)
    assert isinstance(total, Tensor) and isinstance(count, Tensor)
    return (total / count.clamp(min=1)[:, None])[:, None]  # where no run has a token, none has an answer either
