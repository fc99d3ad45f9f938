"""What `torch.func.vmap` asks of code that it runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def under_vmap(x: Tensor) -> bool:
    """Whether a tensor is in the hands of `torch.func` (`vmap`, `grad`), where its values may not be asked for."""
    return torch._C._functorch.is_functorch_wrapped_tensor(x)


def folded(
    function: Any, info: Any, in_dims: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """Apply an autograd Function under vmap where its tensors' first axis holds things that never meet.

    The axis of vmap is folded into that first axis, and the results, a tuple of tensors, are taken apart again.

    Args:
        function: the Function; its last argument is no tensor, the others are tensors or None.
        info, in_dims, args: what PyTorch gives a Function's `vmap`.
    """
    *tensors, last = args
    size = info.batch_size
    moved = [
        x if x is None else (x.unsqueeze(0).expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)
        for x, dim in zip(tensors, in_dims[:-1], strict=True)
    ]
    out = function.apply(*moved, last)
    return tuple(x.unflatten(0, (size, -1)) for x in out), (0,) * len(out)
