"""ChaCAL solved one block of rows after the other, and its gradients from the last block to the first."""

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


def system(inner: Float[Tensor, "n rows rows"], shape: Shape) -> Float[Tensor, "n rows rows"]:
    """I − γ A_s of one block; without the diagonal inside, that of the result is not 1 and is not read."""
    matrix = inner * -shape.gamma
    if shape.diagonal:
        matrix.diagonal(dim1=1, dim2=2).add_(1)
    return matrix


class _Room:
    """One buffer for every block's rows over the keys: allocating it anew costs more than the work done in it."""

    def __init__(self, q: Tensor, k: Tensor, block: int) -> None:
        self.n, n_rows = len(q), min(block, q.shape[1])
        self.buffer = q.new_empty(self.n * n_rows * k.shape[1])
        self.future = q.new_full((n_rows, n_rows), float("-inf")).triu(1)

    def __call__(self, n_rows: int, n_columns: int) -> Float[Tensor, "n rows columns"]:
        return self.buffer[: self.n * n_rows * n_columns].view(self.n, n_rows, n_columns)


def _pattern(q: Tensor, k: Tensor, room: _Room) -> Float[Tensor, "n rows keys"]:
    """The pattern's rows of these queries, the last of them at the last key."""
    n_rows, n_keys = q.shape[1], k.shape[1]
    scores = room(n_rows, n_keys)
    torch.baddbmm(q.new_zeros(()), q, k.transpose(1, 2), beta=0, alpha=q.shape[-1] ** -0.5, out=scores)
    scores[:, :, n_keys - n_rows :].add_(room.future[:n_rows, :n_rows])
    return torch.softmax(scores, -1, out=scores)


def solve_rows(q: Tensor, k: Tensor, v: Tensor, solved: Tensor, shape: Shape, inverses: Tensor | None = None) -> Tensor:
    """Outputs Y of the queries, the last of them at the last key; their solved rows are written into `solved`.

    Solved are the values for Eq. 5, which needs `v` of the queries' positions alone, and the outputs for Eq. 7, which
    needs it of all.
    """
    gamma, n_pos, room = shape.gamma, k.shape[1], _Room(q, k, shape.block)
    first, first_v = n_pos - q.shape[1], n_pos - v.shape[1]
    y = v.new_empty(*q.shape[:2], v.shape[-1])
    for start, end in spans(first, n_pos, shape.block):
        rows = slice(start - first, end - first)
        # The block's rows of the pattern, over all keys up to its last row.
        A = _pattern(q[:, rows], k[:, :end], room)
        # What earlier blocks give, read as standard attention reads values; then the block's own triangular system.
        inner, carried = A[:, :, start:], A[:, :, :start] @ solved[:, :start]
        # (I − γ A_s)⁻¹, which backward needs again. Its entries are sums of products of weights: nothing cancels. It is
        # solved from the right, which is the same for an inverse, and takes half the time.
        identity = torch.eye(end - start, dtype=inner.dtype, device=inner.device)
        inverse = torch.linalg.solve_triangular(
            system(inner, shape), identity, upper=False, left=False, unitriangular=not shape.diagonal
        )
        if inverses is not None:
            inverses[:, start:end, : end - start] = inverse
        if shape.form == "eq5":
            # W = (I − γ A_s)⁻¹ (V + γ carried), Y = (1 − γ) (carried + A W)
            rhs = torch.add(v[:, start - first_v : end - first_v], carried, alpha=gamma)
            solved[:, start:end] = w = inverse @ rhs
            y[:, rows] = torch.baddbmm(carried, inner, w, beta=1 - gamma, alpha=1 - gamma)
        else:
            # Y = (I − γ A_s)⁻¹ ((1 − γ) A V + γ carried)
            rhs = torch.baddbmm(carried, A, v[:, :end], beta=gamma, alpha=1 - gamma)
            solved[:, start:end] = y[:, rows] = inverse @ rhs
    return y


def outputs(q: Tensor, k: Tensor, v: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs Y, the solved values W (nothing for Eq. 7, which solves for Y), every block's inverse."""
    solved, inverses = torch.empty_like(v), v.new_empty(*v.shape[:2], min(shape.block, v.shape[1]))
    y = solve_rows(q, k, v, solved, shape, inverses)
    return y, solved if shape.form == "eq5" else v.new_empty(len(v), 0, 0), inverses


def gradients(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, solved: Tensor, inverses: Tensor, shape: Shape
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values.

    Eq. 5: with G = ∂L/∂V solving (I − γ A_sᵀ) G = (1−γ) Aᵀ dY, and H = (1−γ) dY + γ G: ∂L/∂A_ij = H_i·W_j below the
    diagonal. Eq. 7: with U solving (I − γ A_sᵀ) U = dY: ∂L/∂A_ij = U_i·((1−γ) V_j + γ Y_j) below the diagonal, and
    ∂L/∂V = (1−γ) Aᵀ U. On the diagonal the term with γ is there only if the diagonal is in the inverse. The row sums
    that softmax's derivative needs are dY_i·Y_i + G_i·(W_i − V_i), and U_i·Y_i.
    """
    gamma, eq5, n_pos = shape.gamma, shape.form == "eq5", q.shape[1]
    dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
    pending = dv if eq5 else torch.zeros_like(v)  # what later rows have passed down to each position
    read = solved if eq5 else torch.lerp(v, y, gamma)
    scale = q.shape[-1] ** -0.5
    room, room_for_gradient = _Room(q, k, shape.block), _Room(q, k, shape.block)
    for start, end in reversed(spans(0, n_pos, shape.block)):
        # The block's rows of the pattern once more: they were not kept.
        A = _pattern(q[:, start:end], k[:, :end], room)
        inner, grad = A[:, :, start:], dy[:, start:end]
        transposed = inverses[:, start:end, : end - start].transpose(1, 2)
        # Solve for the block's G (Eq. 5) or U (Eq. 7), and pass on what it gives to earlier positions.
        if eq5:
            rhs = torch.baddbmm(pending[:, start:end], inner.transpose(1, 2), grad, alpha=1 - gamma)
            dv[:, start:end] = g = transposed @ rhs
            left = torch.lerp(grad, g, gamma)
            if start:
                pending[:, :start].baddbmm_(A[:, :, :start].transpose(1, 2), left)
            on_diagonal = grad * solved[:, start:end]
        else:
            left = transposed @ (grad + pending[:, start:end])
            down = A.transpose(1, 2) @ left
            dv[:, :end].add_(down, alpha=1 - gamma)
            pending[:, :start].add_(down[:, :start], alpha=gamma)
            on_diagonal = left * v[:, start:end]
        # From the gradient of the pattern to that of the scores, and of queries and keys.
        dA = torch.bmm(left, read[:, :end].transpose(1, 2), out=room_for_gradient(end - start, end))
        if not shape.diagonal:
            dA[:, :, start:].diagonal(dim1=1, dim2=2).copy_(on_diagonal.sum(-1)).mul_(1 - gamma)
        dS = torch.ops.aten._softmax_backward_data.out(dA, A, -1, A.dtype, grad_input=dA)
        dq[:, start:end] = (dS @ k[:, :end]).mul_(scale)
        dk[:, :end].baddbmm_(dS.transpose(1, 2), q[:, start:end], alpha=scale)
    return dq, dk, dv


def value_and_gradients(
    q: Tensor, k: Tensor, v: Tensor, dy: Tensor, shape: Shape
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Y and the gradients for dy, outside autograd; from tensors `[n, pos, d]` of one type."""
    y, read, kept = outputs(q, k, v, shape)
    return (y, *gradients(dy, q, k, v, y, read, kept, shape))
