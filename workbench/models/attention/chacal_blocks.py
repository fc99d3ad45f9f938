"""ChaCAL in blocks of rows: exact, forward and backward, with no tensor of length × length."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.models.attention import chacal_gpu, chacal_rows, chacal_short
from workbench.models.attention.chacal_rows import Form, Shape
from workbench.util.vmap import differentiable, transformed

SHORT = 128  # positions up to which the whole pattern is kept
WAYS: dict[str, Any] = {"short": chacal_short, "blocks": chacal_rows, "kernel": chacal_gpu}


def chacal_blocks(
    q: Float[Tensor, "*batch pos d_head"],
    k: Float[Tensor, "*batch pos d_head"],
    v: Float[Tensor, "*batch pos d_value"],
    *,
    gamma: float,
    form: Form,
    diagonal: bool,
    block: int | None = None,
) -> Float[Tensor, "*batch pos d_value"]:
    """Causal ChaCAL attention (Eq. 5 or 7), one block of rows at a time.

    For each block of rows I the earlier blocks are read as standard attention reads them, and a small triangular system
    gives the block's own solved values. Backward goes from the last block to the first and recomputes each block's
    pattern. Memory is O(pos · (d_head + block)). Up to 128 positions all rows are computed at once, and their pattern
    is kept (`chacal_short`). On a GPU, where Triton is installed, its kernels do the same (`chacal_gpu`).

    Computed in float32 or better, outside autocast; the result has the values' type. First derivatives, in reverse
    mode, also under `torch.func.grad` and `vmap`; second derivatives are refused.

    Args:
        q, k, v: queries, keys and values, with as many positions each; scores are q kᵀ / sqrt(d_head).
        gamma: γ in [0, 1).
        form: `"eq5"` or `"eq7"`.
        diagonal: keep the pattern's diagonal inside the inverse.
        block: rows in a block, at any length; by default chosen from the length.

    Raises:
        ValueError: if block is not positive.
        RuntimeError: from a second derivative.
    """
    return solved_blocks(q, k, v, gamma=gamma, form=form, diagonal=diagonal, block=block, needed=False)[0]


def solved_blocks(
    q: Float[Tensor, "*batch pos d_head"],
    k: Float[Tensor, "*batch pos d_head"],
    v: Float[Tensor, "*batch pos d_value"],
    *,
    gamma: float,
    form: Form,
    diagonal: bool,
    block: int | None = None,
    needed: bool = True,
) -> tuple[Float[Tensor, "*batch pos d_value"], Tensor]:
    """`chacal_blocks`, and beside it for Eq. 5 the solved values W, like the values but without a gradient.

    Unless they are `needed`, they may be left out, which is faster.
    """
    if block is not None and block < 1:
        raise ValueError(f"a block holds at least 1 row, not {block}")
    dtype = torch.promote_types(torch.promote_types(q.dtype, k.dtype), torch.promote_types(v.dtype, torch.float32))
    n_pos = q.shape[-2]
    if block is not None:
        shape = Shape(gamma, form, diagonal, block)
    elif chacal_gpu.usable(q, k, v, form, diagonal):
        rows, dtype = chacal_gpu.kernel_block(q.device, q.shape[-1], v.shape[-1]), v.dtype
        shape = Shape(gamma, form, diagonal, rows, "kernel")
    else:
        shape = Shape(gamma, form, diagonal, default_block(n_pos), "short" if n_pos <= SHORT else "blocks")
    # The batch axes to which those of all broadcast. Looking for them, and views that change nothing, cost time.
    same = q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
    batch = q.shape[:-2] if same else torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    autocast = torch.is_autocast_enabled(q.device.type)  # leaving it costs time
    with torch.autocast(q.device.type, enabled=False) if autocast else nullcontext():
        all_axes = [x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:]) for x in (q, k, v)]
        flat = [x.to(dtype).reshape(-1, *x.shape[-2:]) for x in all_axes]  # [n, pos, d]
        whole = (*batch, n_pos, v.shape[-1])
        if needed or transformed():
            y, read, _ = _TransformedBlocks.apply(*flat, shape)
            return y.view(whole).to(v.dtype), read.view(whole) if form == "eq5" else read
        y = _Blocks.apply(*flat, shape)
        return y.view(whole).to(v.dtype), y.new_empty(0)


def default_block(n_pos: int) -> int:
    """Rows in a block: small enough that a triangle's wasted half is little, large enough for the matrix products."""
    longest = {64: 64, 256: 32, 512: 48, 1024: 64}  # measured on a CPU
    return min(n_pos, next((block for length, block in longest.items() if n_pos <= length), 96))


# From tensors `[n, pos, d]`, and the shape as the last argument: Y and two tensors that backward needs beside it.
_Blocks, _TransformedBlocks = differentiable(
    lambda *tensors_and_shape: WAYS[tensors_and_shape[-1].way].outputs(*tensors_and_shape),
    lambda *tensors_and_shape: WAYS[tensors_and_shape[-1].way].gradients(*tensors_and_shape),
    "ChaCAL's fast path has no second derivative; the explicit one has: layer.read(layer.pattern(q, k), v)",
)
