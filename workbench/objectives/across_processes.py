"""Losses across a batch that is spread over several processes: averaging counts and gathering tensors."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.nn.functional import all_gather


def is_distributed() -> bool:
    """Whether several processes train together."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def mean_of_processes(x: Tensor) -> Tensor:
    """The mean of a number over the processes, without a gradient; `x` itself if there is only one process."""
    if not is_distributed():
        return x
    total = x.detach().double()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def across_processes(x: Tensor) -> Tensor:
    """The tensors of all processes, concatenated along the batch; `x` itself if there is only one process.

    It is differentiable: the losses of all processes send gradients back to this process's part. Gradients that are
    averaged over processes, as in data parallelism, then equal those of a single process with the whole batch.

    Raises:
        ValueError: if the processes' tensors differ in shape.
    """
    if not is_distributed():
        return x
    own_shape = torch.tensor(x.shape, device=x.device)
    shapes = [torch.empty_like(own_shape) for _ in range(dist.get_world_size())]
    dist.all_gather(shapes, own_shape)
    if any(not torch.equal(shape, own_shape) for shape in shapes):
        got = " and ".join(str(shape.tolist()) for shape in shapes)
        raise ValueError(f"each process needs a part of the batch of the same shape, not {got}")
    if x.dtype == torch.bool:
        return torch.cat(all_gather(x.to(torch.uint8))).bool()
    return torch.cat(all_gather(x.contiguous()))
