"""The control `untrained`: models with fresh or shuffled weights. What is found in these is not owed to training."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch

from workbench.measurement.controls.base import Control
from workbench.models import AnyModel, Decoder, OwnModel

M = TypeVar("M", bound=AnyModel)


def untrained(model: AnyModel, generator: torch.Generator) -> AnyModel:
    """A model of the same shape and precision with fresh initial weights, in eval mode.

    Raises:
        ValueError: if it is a model of one's own, and nothing builds it anew.
    """
    if isinstance(model, OwnModel):
        return model.fresh(generator)
    fresh = Decoder(model.config, generator)
    return fresh.to(next(model.parameters())).eval()


@torch.no_grad()
def shuffled(model: M, generator: torch.Generator) -> M:
    """A copy, in eval mode, with the numbers of each weight matrix in random order: as large, and without structure.

    A tied unembedding stays tied.
    """
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.copy_(parameter.flatten()[order].view_as(parameter))
    copied.eval()
    return copied


CONTROL = Control("re-initialised models", "re-initialised", None)
