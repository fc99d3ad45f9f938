"""Runs ChaCAL's Triton kernels in Triton's interpreter, and says how far they are from float64: a program for a test.

TRITON_INTERPRET=1 has to be set before Triton is imported, which PyTorch does by itself: hence a process of its own.
"""

from __future__ import annotations

import itertools
import json
import sys
import warnings
from typing import Any

import torch
from torch import Tensor

from workbench.models.attention import ATTENTION, chacal_gpu
from workbench.models.attention.chacal_rows import Shape
from workbench.util.seeds import generator

# positions, d_head, d_value, rows in a block, blocks in a span
SIZES = [
    (1, 16, 16, 16, 8),
    (2, 5, 7, 16, 1),
    (16, 16, 16, 16, 1),
    (17, 16, 16, 16, 1),
    (47, 24, 16, 16, 2),
    (64, 16, 16, 32, 8),
    (65, 16, 16, 64, 8),
    (100, 16, 40, 32, 2),
    (129, 16, 16, 64, 1),
    (200, 16, 16, 64, 2),
]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def drawn(n_pos: int, d: int, dv: int, dtype: torch.dtype) -> list[Tensor]:
    rng = generator(0, "kernels", n_pos)
    return [torch.randn(2, n_pos, size, generator=rng).to(dtype) for size in (d, d, dv, dv)]


def exact(q: Tensor, k: Tensor, v: Tensor, dy: Tensor, form: Any, diagonal: bool) -> list[Tensor]:
    """Value and gradients by the explicit path, in float64."""
    inputs = [x.double()[None].requires_grad_() for x in (q, k, v)]
    layer = ATTENTION["chacal"](form=form, diagonal=diagonal)
    y = layer.read(layer.pattern(*inputs[:2]), inputs[2])
    return [x[0].detach() for x in (y, *torch.autograd.grad((y * dy.double()).sum(), inputs))]


def apart(found: Any, wanted: list[Tensor]) -> float:
    """The largest distance of the value and the gradients, each over its largest entry where that is above 1."""
    distances = [
        (ours.detach().double() - theirs).abs().max() / theirs.abs().max().clamp(min=1)
        for ours, theirs in zip(found, wanted, strict=True)
    ]
    return float(torch.stack(distances).max())


def by_the_kernels(sizes: tuple[int, ...], dtype: torch.dtype, form: Any, diagonal: bool) -> float:
    n_pos, d, dv, block, span = sizes
    q, k, v, dy = drawn(n_pos, d, dv, dtype)
    shape = Shape(0.9, form, diagonal, block)
    y, x, lse = chacal_gpu.outputs(q, k, v, shape, span)
    found = (y, *chacal_gpu.gradients(dy, q, k, v, y, x, lse, shape, span))
    return apart(found, exact(q, k, v, dy, form, diagonal))


def through_a_layer() -> float:
    """A layer on half precision, with no sign of the kernels but the speed."""
    chacal_gpu.usable = lambda *_: True  # type: ignore[assignment]
    q, k, v, dy = (x[None] for x in drawn(20, 16, 16, torch.bfloat16))
    inputs = [x.requires_grad_() for x in (q, k, v)]
    y = ATTENTION["chacal"]().mix(*inputs)
    found = (y, *torch.autograd.grad(y, inputs, dy))
    assert all(x.dtype == torch.bfloat16 for x in found)
    return apart([x[0] for x in found], exact(*(x[0].detach() for x in (q, k, v, dy)), "eq5", False))


def main() -> None:
    results: dict[str, Any] = {}
    for sizes, dtype, form, diagonal in itertools.product(SIZES, DTYPES, ("eq5", "eq7"), (False, True)):
        name = f"{sizes[0]}-{dtype}-{form}-{diagonal}"
        results[name] = by_the_kernels(sizes, DTYPES[dtype], form, diagonal)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results["agrees"] = chacal_gpu.agrees(torch.device("cpu"), torch.float32, "eq5", False, 16, 16)
    results["layer"] = through_a_layer()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
