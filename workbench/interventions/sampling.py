"""Draw what an edit changes: for each example one of its allowed options at random, and spans of a single position."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def at_position(values: Tensor, position: Int[Tensor, " batch"]) -> Tensor:
    """The values at one position of each example: `[batch, pos, …]` to `[batch, …]`."""
    rows = torch.arange(len(position), device=values.device)
    return values[rows, position.to(values.device)]


def single_position(
    position: Int[Tensor, " batch"], n_pos: int, where: Bool[Tensor, " batch"]
) -> Bool[Tensor, "batch pos"]:
    """A mask with one true position in each example, and none where `where` is false."""
    return (torch.arange(n_pos) == position[:, None]) & where[:, None]


def choose_one(
    allowed: Bool[Tensor, "batch option"], generator: torch.Generator
) -> tuple[Int[Tensor, " batch"], Bool[Tensor, " batch"]]:
    """One allowed option of each row at random (0 where none is), and whether there is one."""
    drawn = torch.rand(allowed.shape, generator=generator)
    return torch.where(allowed, drawn, -1.0).argmax(-1) * allowed.any(-1), allowed.any(-1)


def token_mask(ids: Int[Tensor, " token"], n: int) -> Bool[Tensor, " n"]:
    """A mask over n token ids that is true for these."""
    mask = torch.zeros(n, dtype=torch.bool)
    mask[ids] = True
    return mask


def excluding(allowed: Bool[Tensor, "#batch option"], *tokens: Int[Tensor, " batch"]) -> Bool[Tensor, "batch option"]:
    """The allowed options of each row without these tokens."""
    options = torch.arange(allowed.shape[1])
    for excluded in tokens:
        allowed = allowed & (options != excluded[:, None])
    return allowed


def two_other_tokens(
    ids: Int[Tensor, " token"], n: int, taken: Sequence[Int[Tensor, " batch"]], generator: torch.Generator
) -> list[tuple[Int[Tensor, " batch"], Bool[Tensor, " batch"]]]:
    """Two random tokens of each example, among these ids, that differ from the tokens taken and from each other.

    Args:
        ids: the tokens to draw from, of a vocabulary of n.
        n: the size of the vocabulary.
        taken: tokens of each example that are not drawn.
        generator: the only source of chance.

    Returns each token with whether there is one: an example may have too few.
    """
    others = excluding(token_mask(ids, n)[None], *taken)
    third, there = choose_one(others, generator)
    return [(third, there), choose_one(excluding(others, third), generator)]
