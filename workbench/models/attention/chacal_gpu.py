"""ChaCAL on a GPU: what calls the Triton kernels of `chacal_kernels`, and what decides whether they are used.

Triton is an optional dependency; without it, ChaCAL runs in blocks on every device.
"""

from __future__ import annotations

import functools
import warnings
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from workbench.models.attention.chacal_rows import Form, Shape, spans, value_and_gradients

SPAN = 8  # blocks that one program solves one after the other
CHECKED = (2, 150)  # sequences and positions of what the kernels are tried on at first use
WIDEST = 128  # head: beyond that a block does not fit into the registers
SHARED = 160 << 10  # bytes that a block of 64 rows takes of a multiprocessor, in float32
APART = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 1e-2}  # from the blocks, over the largest entry


def usable(q: Tensor, k: Tensor, v: Tensor, form: Form, diagonal: bool) -> bool:
    """Whether the kernels can be used: on a CUDA device, Triton is installed, they were tried there and agree."""
    if q.device.type != "cuda" or find_spec("triton") is None or torch.compiler.is_compiling():
        return False
    if not (q.dtype == k.dtype == v.dtype and q.dtype in APART) or max(q.shape[-1], v.shape[-1]) > WIDEST:
        return False
    return agrees(q.device, q.dtype, form, diagonal, q.shape[-1], v.shape[-1])


@functools.cache
def agrees(device: torch.device, dtype: torch.dtype, form: Form, diagonal: bool, d_head: int, d_value: int) -> bool:
    """Try the kernels once against the blocks, value and gradients; where they disagree, warn and go without them."""
    generator = torch.Generator().manual_seed(0)
    q, k, v, dy = (
        torch.randn(*CHECKED, d, generator=generator).to(device, dtype) for d in (d_head, d_head, d_value, d_value)
    )
    shape, why = Shape(0.9, form, diagonal, kernel_block(device, d_head, d_value)), ""
    with torch.autocast(device.type, enabled=False):  # the first use may be within it
        exact = value_and_gradients(q.float(), k.float(), v.float(), dy.float(), shape)
        try:
            y, x, lse = outputs(q, k, v, shape, span=2)
            computed = (y, *gradients(dy, q, k, v, y, x, lse, shape, span=2))
        except Exception as error:  # of a compiler or a driver: there is no saying which
            lines = str(error).splitlines() or [""]
            why = f"they fail ({type(error).__name__}: {lines[0]})"
        else:
            for got, expected in zip(computed, exact, strict=True):
                apart = float((got.float() - expected).abs().max() / expected.abs().max())
                if not apart <= APART[dtype]:
                    why = f"they are {apart:.1e} from the blocks in {dtype}, {form}"
    if why:
        warnings.warn(
            f"ChaCAL's Triton kernels are not used on {device}: {why}. It runs in blocks of PyTorch operations "
            "instead, which is exact and slower.",
            RuntimeWarning,
            stacklevel=2,
        )
    return not why


def outputs(q: Tensor, k: Tensor, v: Tensor, shape: Shape, span: int = SPAN) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs Y, what later rows read (X), and the log-sum-exp of the scores, all float32.

    Args:
        q, k, v: `[n, pos, d]`, of one type.
        shape: its `block` is a power of 2, at least 16.
        span: how many blocks one program solves.
    """
    from workbench.models.attention import chacal_kernels as kernels

    q, k, v = (x.contiguous() for x in (q, k, v))
    n, n_pos, dv = v.shape
    sizes, solving = _sizes(q, v, shape)
    y, x, carried = (q.new_empty(n, n_pos, dv, dtype=torch.float32) for _ in range(3))
    lse, largest, total = (q.new_empty(n, n_pos, dtype=torch.float32) for _ in range(3))
    scale, gamma = q.shape[-1] ** -0.5, shape.gamma
    for first, last in spans(0, -(-n_pos // shape.block), span):  # the first block of each, and the one after its last
        at = (n_pos, q.shape[-1], dv, scale)
        kernels.carry[(last - first, n)](q, k, x, carried, largest, total, *at, first, **sizes)
        kernels.solve[(n,)](
            q, k, v, x, y, lse, carried, largest, total, *at, gamma, 1 - gamma, first, last, **sizes, **solving
        )
    return y, x, lse


def gradients(
    dy: Tensor, q: Tensor, k: Tensor, v: Tensor, y: Tensor, x: Tensor, lse: Tensor, shape: Shape, span: int = SPAN
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of queries, keys and values, in their types.

    The derivative of softmax needs δ, each row's sum of A ∘ ∂L/∂A: dY·Y + G·(W − V) for Eq. 5, U·Y for Eq. 7.
    """
    from workbench.models.attention import chacal_kernels as kernels

    q, k, v = (each.contiguous() for each in (q, k, v))
    dy = dy.to(torch.float32).contiguous()
    n, n_pos, dv = v.shape
    sizes, solving = _sizes(q, v, shape)
    gamma, at = shape.gamma, (n_pos, q.shape[-1], dv, q.shape[-1] ** -0.5)
    h, grad_v, pending = (torch.empty_like(x) for _ in range(3))
    blocks = -(-n_pos // shape.block)
    for first, last in reversed(spans(0, blocks, span)):
        kernels.carry_back[(last - first, n)](q, k, lse, h, pending, *at, first, last, blocks, **sizes)
        kernels.solve_back[(n,)](
            q, k, lse, dy, h, grad_v, pending, *at, gamma, 1 - gamma, first, last, **sizes, **solving
        )
    if shape.form == "eq5":
        delta, on_diagonal = (dy * y + grad_v * (x - v)).sum(-1), (1 - gamma) * (dy * x).sum(-1)
    else:
        delta, on_diagonal = (h * y).sum(-1), (1 - gamma) * (h * v).sum(-1)
    grad_q, grad_k = torch.empty_like(q), torch.empty_like(k)
    inside = {"DIAGONAL": shape.diagonal}
    kernels.query_gradient[(blocks, n)](q, k, x, h, lse, delta, on_diagonal, grad_q, *at, **inside, **sizes)
    kernels.key_gradient[(blocks, n)](q, k, x, h, lse, delta, on_diagonal, grad_k, *at, blocks, **inside, **sizes)
    return grad_q, grad_k, grad_v.to(v.dtype)


def kernel_block(device: torch.device, d_head: int, d_value: int) -> int:
    """Rows in a block: as many as fit beside each other into what one program may hold of the device's memory."""
    if max(d_head, d_value) > 64:
        return 32
    properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
    return 64 if properties is None or getattr(properties, "shared_memory_per_block_optin", 0) >= SHARED else 32


def _sizes(q: Tensor, v: Tensor, shape: Shape) -> tuple[dict[str, Any], dict[str, Any]]:
    """What all kernels are compiled for, and what those that solve are, too."""
    powers = [max(16, 1 << (x.shape[-1] - 1).bit_length()) for x in (q, v)]
    # Half-precision values are exact in tf32; three products of it are as good as one in float32, and quicker.
    precision = "tf32x3" if q.dtype == torch.float32 else "tf32"
    sizes = {"D": powers[0], "DV": powers[1], "BLOCK": shape.block, "PRECISION": precision}
    log = shape.block.bit_length() - 1
    return sizes, {"EQ5": shape.form == "eq5", "DIAGONAL": shape.diagonal, "LOG": log}
