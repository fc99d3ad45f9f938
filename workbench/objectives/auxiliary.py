"""Auxiliary targets: what is true on the way to the answer, read by a linear map from a layer in training."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from workbench.models import DecoderConfig
from workbench.objectives.base import Objective, mean_of_processes
from workbench.tasks import Batch, Task, make
from workbench.tasks.labels import is_labelled, labels
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

SAMPLED = 256  # training sequences of which the mean and spread of a label are taken


class Auxiliary(Objective):
    """The mean loss of linear maps that read labels of the task's truth from residuals, times a weight.

    The labels are those that probes decode (`workbench.tasks.labels`). A class has the cross-entropy in nats as its
    loss, a set of classes (what is in a box) that of each class by itself, and what is named in `numbers` the squared
    error over the label's variance on training sequences. The maps train with the model and are not part of it; at
    positions where a label means nothing nothing is asked, nor of batches of hints. A regression of partial sums from
    two heads of layer 2 is what lets 4 × 4 digits be multiplied without a chain of thought (arXiv 2510.00184); there it
    reads heads, here a layer's residual.
    """

    name = "auxiliary"
    stackable = False

    class Settings(Objective.Settings):
        """Settings of the auxiliary targets."""

        labels: dict[str, int] = Field(
            default={},
            description="label of the task's truth -> the layer whose resid_post it is read from, −1 the last",
        )
        numbers: tuple[str, ...] = Field((), description="of these labels, those read as numbers and not as classes")
        weight: float = Field(1.0, ge=0, description="how much their losses count beside the others")

    def __init__(self, config: DecoderConfig, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.config = config
        self.places: dict[str, str] = {}
        for label, layer in self.settings.labels.items():
            if not -config.n_layers <= layer < config.n_layers:
                raise ValueError(
                    f"auxiliary reads {label} from layer {layer}, but the model has layers 0..{config.n_layers - 1}"
                )
            self.places[label] = f"blocks.{layer % config.n_layers}.hook_resid_post"
        self.needs = tuple(dict.fromkeys(sorted(self.places.values())))
        self.maps = nn.ModuleDict()

    def fit_to_task(self, task: Task) -> None:
        """Take the task whose truth is read, and make the maps.

        Raises:
            ValueError: if no label is given, the task has none of that name, or a number is the same everywhere.
        """
        self.task, self.of_label = task, _of_labels(task.name, task.model_dump_json())
        if not self.places:
            raise ValueError(f"auxiliary needs labels, such as {{{next(iter(self.of_label))!r}: 0}}: each with a layer")
        for number in self.settings.numbers:
            lookup(self.places, number, "label among auxiliary's")
        for label in self.places:
            known = lookup(self.of_label, label, f"label of {task.name}")
            if label in self.settings.numbers and not known.spread:
                why = "it is a set of classes" if known.is_set else f"it is the same wherever {task.name} has it"
                raise ValueError(f"auxiliary cannot read {label} as a number: {why}")
            self.maps[label] = nn.Linear(self.config.d_model, 1 if label in self.settings.numbers else known.classes)

    def forward(
        self, logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
    ) -> tuple[Tensor, dict[str, float | Tensor]]:
        if batch.head != "main":
            return logits.new_zeros(()), {}
        truth = labels(self.task, batch.tokens.cpu())
        losses = {label: self._loss(label, kept[at], truth[label]) for label, at in self.places.items()}
        figures: dict[str, float | Tensor] = {f"auxiliary/{label}": loss.detach() for label, loss in losses.items()}
        return self.settings.weight * torch.stack(list(losses.values())).mean(), figures

    def _loss(
        self, label: str, residual: Float[Tensor, "batch pos d_model"], values: Int[Tensor, "batch pos *class"]
    ) -> Float[Tensor, ""]:
        values = values.to(residual.device)
        labelled = is_labelled(values)
        read, wanted = self.maps[label](residual[labelled]).float(), values[labelled]  # [label, class]
        if label in self.settings.numbers:
            known = self.of_label[label]
            total = (read[:, 0] - (wanted - known.mean) / known.spread).square().sum()
        elif wanted.ndim == 2:
            by_class = nn.functional.binary_cross_entropy_with_logits(read, wanted.to(read.dtype), reduction="none")
            total = by_class.mean(1).sum()
        else:
            total = nn.functional.cross_entropy(read, wanted, reduction="sum")
        return total / mean_of_processes(labelled.sum()).clamp(min=1)


@dataclass(frozen=True)
class _Label:
    """What a fixed sample of training sequences says of a label: its classes, and its mean and spread as a number."""

    classes: int
    mean: float = 0.0
    spread: float = 0.0
    is_set: bool = False


@lru_cache(maxsize=32)
def _of_labels(name: str, settings: str) -> dict[str, _Label]:
    """Every label of a task, from a fixed sample of what it trains on.

    A class may be any that a token, a position or the sample has. Kept by the task's settings as text, as a plugin's
    task need not be hashable: a list of runs opens every config.
    """
    with torch.device("cpu"):  # a config is checked on the meta device, which has no numbers
        task = make(name, **json.loads(settings))
        tokens = task.sample(SAMPLED, generator(0, "auxiliary labels"), split="train").tokens
        of_label = {}
        for label, values in labels(task, tokens).items():
            if values.ndim == 3:
                of_label[label] = _Label(values.shape[2], is_set=True)
            elif len(seen := values[values >= 0].double()):
                classes = max(len(task.vocabulary), task.n_ctx, int(seen.max()) + 1)
                of_label[label] = _Label(classes, float(seen.mean()), float(seen.std(correction=0)))
    return of_label
