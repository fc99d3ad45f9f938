"""ChaCAL on short sequences: the pattern is kept for backward, and all rows are computed at once.

Up to some 128 positions the number of operations counts for more than their size, and the pattern is small.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.models.attention.chacal_shape import Shape, inverse, spans


def outputs(q: Tensor, k: Tensor, v: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs Y, the solved values W (nothing for Eq. 7, which solves for Y), every block's inverse, the pattern."""
    future = q.new_full((q.shape[1], q.shape[1]), float("-inf")).triu(1)
    A = torch.baddbmm(future, q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
    torch.softmax(A, -1, out=A)
    inverses = _inverses(A, shape)
    if shape.form == "eq5":
        W = _solved(A, inverses, v, shape)
        return (A @ W).mul_(1 - shape.gamma), W, inverses, A
    return _solved(A, inverses, (A @ v).mul_(1 - shape.gamma), shape), v.new_empty(len(v), 0, 0), inverses, A


def gradients(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, W: Tensor, inverses: Tensor, A: Tensor, shape: Shape
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values, by the equations of `chacal_blocks`."""
    gamma = shape.gamma
    if shape.form == "eq5":
        dv = _solved_transposed(A, inverses, (A.transpose(1, 2) @ dy).mul_(1 - gamma), shape)
        left, read, on_diagonal = torch.lerp(dy, dv, gamma), W, (dy, W)
    else:
        left = _solved_transposed(A, inverses, dy, shape)
        dv = (A.transpose(1, 2) @ left).mul_(1 - gamma)
        read, on_diagonal = torch.lerp(v, y, gamma), (left, v)
    dA = left @ read.transpose(1, 2)
    if not shape.diagonal:
        dA.diagonal(dim1=1, dim2=2).copy_((on_diagonal[0] * on_diagonal[1]).sum(-1)).mul_(1 - gamma)
    dS = torch.ops.aten._softmax_backward_data.out(dA, A, -1, A.dtype, grad_input=dA)
    scale = q.shape[-1] ** -0.5
    return (dS @ k).mul_(scale), (dS.transpose(1, 2) @ q).mul_(scale), dv


def _inverses(A: Tensor, shape: Shape) -> Float[Tensor, "n pos block"]:
    """The inverse of every block's own part of the pattern, one below the other."""
    n_pos = A.shape[1]
    if n_pos <= shape.block:
        return inverse(A, shape)
    inverses = A.new_empty(len(A), n_pos, shape.block)
    for start, end in spans(0, n_pos, shape.block):
        inverses[:, start:end, : end - start] = inverse(A[:, start:end, start:end], shape)
    return inverses


def _solved(A: Tensor, inverses: Tensor, rhs: Tensor, shape: Shape) -> Tensor:
    """X with (I − γ A_s) X = rhs, from the first block of rows to the last."""
    if A.shape[1] <= shape.block:
        return inverses @ rhs
    solved = torch.empty_like(rhs)
    for start, end in spans(0, A.shape[1], shape.block):
        rows = torch.baddbmm(rhs[:, start:end], A[:, start:end, :start], solved[:, :start], alpha=shape.gamma)
        solved[:, start:end] = inverses[:, start:end, : end - start] @ rows
    return solved


def _solved_transposed(A: Tensor, inverses: Tensor, rhs: Tensor, shape: Shape) -> Tensor:
    """X with (I − γ A_sᵀ) X = rhs, from the last block of rows to the first."""
    if A.shape[1] <= shape.block:
        return inverses.transpose(1, 2) @ rhs
    solved = rhs.clone()
    for start, end in reversed(spans(0, A.shape[1], shape.block)):
        rows = inverses[:, start:end, : end - start].transpose(1, 2) @ solved[:, start:end]
        solved[:, start:end] = rows
        solved[:, :start].baddbmm_(A[:, start:end, :start].transpose(1, 2), rows, alpha=shape.gamma)
    return solved
