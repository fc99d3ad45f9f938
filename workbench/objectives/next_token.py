"""Next-token loss: cross-entropy with the task's targets over the scored positions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from workbench.objectives.base import Objective, mean_of_processes
from workbench.tasks import Batch
from workbench.util.vmap import under_vmap


def next_token(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the scored positions.

    If the target is a set of classes, the target distribution is uniform over the set (soft labels); the smallest
    possible loss is then the mean log size of the sets, not 0. If several processes train together, the mean of their
    losses is the loss of the whole batch, also where their parts have different numbers of scored positions.

    Raises:
        ValueError: if the batch, on the CPU, scores no position; elsewhere, where asking would make the caller wait for
            the device, the loss is then NaN.
    """
    count = batch.loss_mask.sum()
    if count.device.type == "cpu" and not under_vmap(count) and not count:
        raise ValueError("this batch scores no position: its loss mask is false everywhere")
    return summed_cross_entropy(logits, batch) / mean_of_processes(count)


def summed_cross_entropy(logits: Float[Tensor, "batch pos class"], batch: Batch) -> Float[Tensor, ""]:
    """Summed cross-entropy in nats over the scored positions of this process; `next_token` is the mean."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if batch.targets.ndim == 3:
        share = (batch.targets & batch.loss_mask.unsqueeze(-1)).to(logits.dtype)
        return -(share / share.sum(-1, keepdim=True).clamp(min=1) * logits.log_softmax(-1)).sum()
    targets = batch.targets.masked_fill(~batch.loss_mask, -100)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, reduction="sum")


def loss_floor(batch: Batch) -> float:
    """The smallest possible `next_token` of a batch, in nats: the mean entropy of its target distributions.

    It is 0 where each target is a class, and the mean log size where it is a set. For pointer chains in reading `chain`
    with n=128 and k=8 these are sets of 1 to 15 ancestors: ln(15!) / 15 = 1.86.

    Raises:
        ValueError: if the batch scores no position.
    """
    if not batch.loss_mask.any():
        raise ValueError("this batch scores no position: its loss mask is false everywhere")
    if batch.targets.ndim == 2:
        return 0.0
    return batch.targets.sum(-1)[batch.loss_mask].clamp(min=1).double().log().mean().item()


class NextToken(Objective):
    """Predict the task's targets: next tokens, or sets of tokens where the task asks for sets."""

    name = "next_token"

    def forward(
        self, logits: Tensor, kept: Mapping[str, Tensor], batch: Batch
    ) -> tuple[Tensor, dict[str, float | Tensor]]:
        loss = next_token(logits, batch)
        return loss, {"next_token": loss.detach()}
