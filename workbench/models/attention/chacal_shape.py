"""What ChaCAL's ways of computing share: a layer's settings, blocks of rows, and the inverse of one block."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Form = Literal["eq5", "eq7"]
Way = Literal["blocks", "short", "kernel"]


class Shape(NamedTuple):
    """The settings of a layer, how many rows a block has, and which of the ways computes it."""

    gamma: float
    form: Form
    diagonal: bool
    block: int
    way: Way = "blocks"


def spans(first: int, n_pos: int, block: int) -> list[tuple[int, int]]:
    """Where each block of rows starts and ends."""
    return [(start, min(start + block, n_pos)) for start in range(first, n_pos, block)]


def inverse(inner: Tensor, shape: Shape) -> Float[Tensor, "n rows rows"]:
    """(I − γ A_s)⁻¹ of one block's own part of the pattern, which backward needs again.

    Its entries are sums of products of weights, without subtraction: nothing cancels.
    """
    identity = torch.eye(inner.shape[1], dtype=inner.dtype, device=inner.device)
    system = inner * -shape.gamma
    if shape.diagonal:
        system.diagonal(dim1=1, dim2=2).add_(1)
    # from the right: it is the same for an inverse, and takes half the time
    return torch.linalg.solve_triangular(system, identity, upper=False, left=False, unitriangular=not shape.diagonal)
