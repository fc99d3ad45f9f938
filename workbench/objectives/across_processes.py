"""A batch that is spread over processes, put together again for losses that look across it."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather


def several() -> bool:
    """Whether this process trains together with others."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def mean_of_processes(x: Tensor) -> Tensor:
    """The mean over processes of a number without a gradient; `x` itself where there is one process."""
    if not several():
        return x
    total = x.detach().double()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def across_processes(x: Tensor) -> Tensor:
    """The tensors of all processes, one after the other along the batch; `x` itself where there is one process.

    Differentiable: what the loss of every process makes of this process's part flows back to it, so that gradients
    averaged over processes, as data parallelism averages them, are those of one process with the whole batch.

    Raises:
        ValueError: if the processes' tensors differ in shape.
    """
    if not several():
        return x
    own = torch.tensor(x.shape, device=x.device)
    shapes = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, own)
    if any(not torch.equal(shape, own) for shape in shapes):
        found = " and ".join(str(shape.tolist()) for shape in shapes)
        raise ValueError(f"each process needs a part of the batch of the same shape, not {found}")
    if x.dtype == torch.bool:
        return torch.cat(all_gather(x.to(torch.uint8))).bool()
    return torch.cat(all_gather(x.contiguous()))
