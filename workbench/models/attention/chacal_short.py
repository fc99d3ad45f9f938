"""ChaCAL on short sequences, whose pattern is small enough to be kept for backward.

Here the number of operations and of passes over memory counts for as much as arithmetic. There are as few of both as
the equations of `chacal_blocks` allow: triangular systems are solved in the layout that is fast, constants are put into
what is computed anyway, and no product is written into a part of a larger tensor, which PyTorch does slowly. Up to 64
positions there is one block of rows; above, several, each over no more keys than it sees.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.models.attention.chacal_rows import Shape, spans, system


def outputs(q: Tensor, k: Tensor, v: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs Y; what they read, W for Eq. 5 and V + γ/(1−γ) Y for Eq. 7; the pattern, whose upper half is not set."""
    gamma, n_pos, eq5 = shape.gamma, q.shape[1], shape.form == "eq5"
    future = q.new_full((n_pos, n_pos), float("-inf")).triu(1)
    blocks, patterns, ys = spans(0, n_pos, shape.block), [], []
    read = v if len(blocks) == 1 else torch.empty_like(v)  # what the blocks so far have to be read
    for start, end in blocks:
        A = q[:, start:end] @ k[:, :end].mT
        torch.add(future[start:end, :end], A, alpha=q.shape[-1] ** -0.5, out=A)
        torch.softmax(A, -1, out=A)
        inner, values = A[:, :, start:], v[:, start:end]
        carried = A[:, :, :start] @ read[:, :start] if start else None
        if eq5:
            rhs = values if carried is None else torch.add(values, carried, alpha=gamma)
            solved = _solve(inner, rhs, shape, in_place=carried is not None)
            y = (inner @ solved if carried is None else torch.baddbmm(carried, inner, solved)).mul_(1 - gamma)
        else:
            rhs = inner @ values if carried is None else torch.baddbmm(carried, inner, values)
            y = _solve(inner, rhs, shape, in_place=True).mul_(1 - gamma)
            solved = torch.add(values, y, alpha=gamma / (1 - gamma))
        patterns.append(A)
        ys.append(y)
        if len(blocks) == 1:
            read = solved
        else:
            read[:, start:end] = solved
    return _joined(ys), read, _whole(patterns, n_pos)


def gradients(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, read: Tensor, A: Tensor, shape: Shape
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values; Y, `read` and the pattern are what `outputs` returns."""
    n_pos, scale = q.shape[1], q.shape[-1] ** -0.5
    blocks = spans(0, n_pos, shape.block)
    left, dv, on_diagonal = _solve_back(dy * (1 - shape.gamma), v, read, A, shape)
    dqs, changes = [], []
    for start, end in blocks:
        dA = left[:, start:end] @ read[:, :end].mT
        if not shape.diagonal:
            dA[:, :, start:].diagonal(dim1=1, dim2=2).copy_(on_diagonal[:, start:end])
        rows = A[:, start:end, :end].contiguous()
        torch.ops.aten._softmax_backward_data.out(dA, rows, -1, A.dtype, grad_input=dA).mul_(scale)
        dqs.append(dA @ k[:, :end])
        changes.append(dA)
    dS = _whole(changes, n_pos)
    dks = [dS[:, start:, start:end].mT @ q[:, start:] for start, end in blocks]
    return _joined(dqs), _joined(dks), dv


def _solve_back(
    grad: Tensor, v: Tensor, read: Tensor, A: Tensor, shape: Shape
) -> tuple[Tensor, Tensor, Float[Tensor, "n pos"]]:
    """What times `read` is the gradient of the pattern; ∂L/∂V; and the gradient on the diagonal, not being inside.

    Args:
        grad: (1−γ) ∂L/∂Y, which is overwritten. What is solved for is G, or (1−γ) U.
    """
    gamma = shape.gamma
    dvs: list[Tensor] = []
    on_diagonal = (grad * read).sum(-1) if shape.form == "eq5" else None
    for start, end in reversed(spans(0, len(A[0]), shape.block)):
        inner, below = A[:, start:end, start:end], A[:, end:, start:end]
        own, later = grad[:, start:end], grad[:, end:]
        if shape.form == "eq5":
            rhs = A[:, start:, start:end].mT @ grad[:, start:]
            G = _solve(inner, rhs, shape, transposed=True, in_place=True)
            own.add_(G, alpha=gamma)
            dvs.insert(0, G)
        else:
            down = below.mT @ later if later.numel() else None
            rhs = own if down is None else torch.add(own, down, alpha=gamma)
            own.copy_(_solve(inner, rhs, shape, transposed=True))
            dvs.insert(0, inner.mT @ own if down is None else torch.baddbmm(down, inner.mT, own))
    return grad, _joined(dvs), (grad * v).sum(-1) if on_diagonal is None else on_diagonal


def _joined(blocks: Sequence[Float[Tensor, "n rows d"]]) -> Float[Tensor, "n pos d"]:
    return blocks[0] if len(blocks) == 1 else torch.cat(list(blocks), 1)


def _whole(rows: Sequence[Float[Tensor, "n rows keys"]], n_pos: int) -> Float[Tensor, "n pos pos"]:
    """The rows of all blocks as one matrix; what is above the blocks' own keys is not set."""
    if len(rows) == 1:
        return rows[0]
    matrix = rows[0].new_empty(len(rows[0]), n_pos, n_pos)
    for block in rows:
        end = block.shape[2]
        matrix[:, end - block.shape[1] : end, :end] = block
    return matrix


def _solve(inner: Tensor, rhs: Tensor, shape: Shape, *, transposed: bool = False, in_place: bool = False) -> Tensor:
    """X with (I − γ A_s) X = rhs, by way of Xᵀ (I − γ A_s)ᵀ = rhsᵀ; `transposed`, with A_sᵀ in place of A_s.

    The solver wants its matrices column by column, and the columns of rhsᵀ are the rows of rhs: nothing is moved.
    `in_place` is for where rhs is not needed any more.
    """
    matrix, columns = system(inner, shape), rhs.mT
    out = columns if in_place and not torch.compiler.is_compiling() else None  # it cannot trace one that is transposed
    return torch.linalg.solve_triangular(
        matrix if transposed else matrix.mT,
        columns,
        upper=not transposed,
        left=False,
        unitriangular=not shape.diagonal,
        out=out,
    ).mT
