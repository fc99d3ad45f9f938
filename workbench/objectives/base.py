"""The base class of objectives, a loss that declares the activations it needs, and losses across processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.nn.functional import all_gather

from workbench.models import DecoderConfig
from workbench.tasks import Batch, Task
from workbench.util.strict_settings import Checked


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


class Objective(nn.Module, ABC):
    """A term of the training loss. Its parameters train with the model and are not part of the model."""

    name: ClassVar[str]
    """The objective's entry in `OBJECTIVES`."""
    needs: tuple[str, ...] = ()
    """Names of the activations that `Decoder.forward` must keep for it."""

    least_batch: int = 1
    """The fewest sequences that it can be computed on."""

    stackable: ClassVar[bool] = True
    """Whether several seeds can be trained in one pass with it (`torch.func.vmap`)."""

    class Settings(Checked):
        """The settings of an objective."""

        @classmethod
        def of_old_config(cls, settings: dict[str, Any]) -> dict[str, Any]:
            """The settings of a stored config.json, with those added that did not exist when it was written.

            A new config states every setting. An older one lacks the later settings; each of these gets the value that
            matches what was done then, which need not be its default. Unless overridden, nothing is added.
            """
            return settings

    def __init__(self, config: DecoderConfig, *, pad: int = -1, **settings: Any) -> None:
        """Make the objective for a model of this shape.

        Args:
            config: the model's shape.
            pad: the task's padding token; −1, which no token has, if its sequences have no padding.
            settings: those of `Settings`.
        """
        super().__init__()
        self.settings: Any = self.Settings(**settings)
        self.pad = pad

    def fit_to_task(self, task: Task) -> None:
        """Take what it needs of the task; by default nothing. Raises ValueError if it cannot be used with the task."""

    @abstractmethod
    def forward(
        self, logits: Float[Tensor, "batch pos class"], kept: Mapping[str, Tensor], batch: Batch
    ) -> tuple[Float[Tensor, ""], dict[str, float | Tensor]]:
        """The loss, and the figures to log, by name.

        Args:
            logits: the model's logits of the batch's output head.
            kept: the activations that the objective `needs`, by name.
            batch: the batch.
        """
