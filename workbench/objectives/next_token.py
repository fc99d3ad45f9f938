"""Cross-entropy with the task's targets, over the positions that are scored."""

from __future__ import annotations

from collections.abc import Mapping

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from workbench.objectives.base import Objective
from workbench.tasks import Batch


def next_token(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the scored positions.

    Where the target is a set of classes, the target distribution is uniform over the set (soft labels), so the
    smallest possible value is the mean log size of the sets, not 0.

    Raises:
        ValueError: if the batch scores no position.
    """
    if not bool(batch.loss_mask.any()):
        raise ValueError("this batch scores no position: its loss mask is false everywhere")
    scored, targets = logits[batch.loss_mask].float(), batch.targets[batch.loss_mask]
    if batch.targets.ndim == 3:
        targets = targets / targets.sum(-1, keepdim=True)
    return F.cross_entropy(scored, targets.to(scored.dtype) if targets.is_floating_point() else targets)


class NextToken(Objective):
    """Predict the task's targets: next tokens, or sets of tokens where the task asks for sets."""

    name = "next_token"

    def forward(
        self, logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
    ) -> tuple[Tensor, dict[str, float | Tensor]]:
        loss = next_token(logits, batch)
        return loss, {"next_token": loss.detach()}
