"""The control `untrained`: models with fresh or shuffled weights. What is found in these is not owed to training."""

from __future__ import annotations

import copy

import torch

from workbench.measurement.controls.base import Control
from workbench.models import Decoder


def untrained(model: Decoder, generator: torch.Generator) -> Decoder:
    """A model of the same shape and precision with fresh initial weights, in eval mode."""
    fresh = Decoder(model.config, generator)
    return fresh.to(next(model.parameters())).eval()


@torch.no_grad()
def shuffled(model: Decoder, generator: torch.Generator) -> Decoder:
    """A copy, in eval mode, with the numbers of each weight matrix in random order: as large, and without structure.

    A tied unembedding stays tied.
    """
    copied = copy.deepcopy(model)
    for parameter in copied.parameters():
        order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
        parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return copied.eval()


CONTROL = Control("untrained models", "untrained", None)
