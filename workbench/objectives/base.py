"""The base class of objectives: a loss that declares the activations it needs, so that training need not know it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from workbench.models import DecoderConfig
from workbench.tasks import Batch, Task
from workbench.util.strict_settings import Checked


class Settings(Checked):
    """The settings of an objective."""

    @classmethod
    def of_old_config(cls, settings: dict[str, Any]) -> dict[str, Any]:
        """The settings of a stored config.json, with those added that did not exist when it was written.

        A new config states every setting. An older one lacks the later settings; each of these gets the value that
        matches what was done then, which need not be its default. Unless overridden, nothing is added.
        """
        return settings


class Objective(nn.Module, ABC):
    """A term of the training loss. Its parameters train with the model and are not part of the model."""

    name: ClassVar[str]
    """The objective's entry in `OBJECTIVES`."""
    Settings: ClassVar[type[Settings]] = Settings
    needs: tuple[str, ...] = ()
    """Names of the activations that `Decoder.forward` must keep for it."""

    least_batch: int = 1
    """The fewest sequences that it can be computed on."""

    stackable: ClassVar[bool] = True
    """Whether several seeds can be trained in one pass with it (`torch.func.vmap`)."""

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
