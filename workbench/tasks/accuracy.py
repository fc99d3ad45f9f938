"""Accuracy of a model's logits on a batch: of each scored position, and of whole sequences."""

from __future__ import annotations

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.tasks.batch import Batch
from workbench.util.ties import exactly, hit, level, on_top

Unit = Literal["sequence", "position"]
COUNTED: dict[Unit, str] = {"sequence": "whole answers", "position": "answer tokens"}
"""What a task counts as one answer (`Task.unit`), in words."""


def correct(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, "batch pos"]:
    """The accuracy of each scored position, in [0, 1]; 0 where the loss mask is false.

    If one class is the target: 1 if it has the largest logit. If a set of m classes is: the share of the set that is
    among the m largest logits, the reading of the pointer-chain accuracy nearest to Table 1 of the ChaCAL paper. Where
    logits tie, it is the expectation over a random order: one of k classes at the top counts 1/k (`util.ties`).
    """
    if batch.targets.ndim == 2:
        return torch.where(batch.loss_mask, hit(logits, batch.targets), 0.0)
    size = batch.targets.sum(-1)
    hits = (on_top(logits, size) * batch.targets).sum(-1)
    return torch.where(batch.loss_mask, hits / size.clamp(min=1), 0.0)


def whole(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, " batch"]:
    """The accuracy of each whole sequence: 1 if every scored position is right (its whole set, if a set is the target).

    With ties it is the product over positions: the probability that all come out right when the ties of each position
    are broken independently, the same rule as for single positions.
    """
    right = hit(logits, batch.targets) if batch.targets.ndim == 2 else exactly(logits, batch.targets)
    return torch.where(batch.loss_mask, right, 1.0).prod(-1)


def predicted(logits: Float[Tensor, "*lead class"], targets: Tensor) -> Bool[Tensor, "*lead class"]:
    """The classes that a model predicts: those with the largest logit; if the target is a set of m, the m largest.

    All classes that tie for the last place are included, so that making or breaking a tie changes the prediction.
    """
    return level(logits) if targets.ndim < logits.ndim else on_top(logits, targets.sum(-1)) > 0
