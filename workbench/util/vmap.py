"""Support for `torch.func.vmap`, with which several seeds train as one stack."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def under_vmap(x: Tensor) -> bool:
    """Whether a tensor is wrapped by `torch.func` (`vmap`, `grad`), where code may not branch on its values."""
    return torch._C._functorch.is_functorch_wrapped_tensor(x)


def transformed() -> bool:
    """Whether `torch.func` or `torch.compile` is at work.

    A Function for them has a `setup_context`, and then PyTorch looks up its signature at each call, which takes longer
    than a small computation.
    """
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def folded(
    function: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply an autograd Function under vmap by folding the axis of vmap into the first axis of its tensors.

    That is right only where the entries along the first axis are computed independently of each other, as the examples
    of a batch are. The results, a tuple of tensors, are unfolded again.

    Args:
        function: the Function; its last argument is not a tensor, the others are tensors or None.
        info, in_dims, args: what PyTorch passes to the `vmap` method of a Function.
    """
    *tensors, last = args
    size = info.batch_size
    moved = [
        x if x is None else (x.unsqueeze(0).expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        for x, dim in zip(tensors, in_dims[:-1], strict=True)
    ]
    out = function.apply(*moved, last)
    return tuple(x.unflatten(0, (size, -1)) for x in out), (0,) * len(out)
