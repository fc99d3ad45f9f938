"""What removing a head costs, over many inputs: the right answers that fall when it writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch

from workbench.capture import Subject
from workbench.interventions.edit import Head, Hooks, check_head, edited_logits, head_in_words, put
from workbench.measurement import Measurement
from workbench.models import AnyHooked
from workbench.models.watched_only import WatchedOnly, check_editable
from workbench.tasks import Batch, correct

REMOVED = "removed"  # the dim


def can_remove_heads(model: AnyHooked) -> bool:
    """Whether the model shows what each of its heads reads, and reads it there, so that a head can be removed."""
    points = [model.hook_dict.get(_point(layer)) for layer in range(model.cfg.n_layers)]
    return all(point is not None and not isinstance(point, WatchedOnly) for point in points)


@torch.no_grad()
def fallen_without(model: AnyHooked, subject: Subject, batch: Batch, heads: Sequence[Head]) -> Measurement:
    """The share of each example's right answers that are wrong when a head writes nothing, each head by itself.

    Returns dims `removed` (`layer 0, head 3`, …), `example`; NaN where no answer is right to begin with.

    Raises:
        ValueError: if there is no such layer or head, or the model does not show or read what it reads.
    """
    right = (correct(edited_logits(model, batch.tokens, []).cpu(), batch) == 1) & batch.loss_mask
    fallen = []
    for layer, head in heads:
        check_head(model, layer, head)
        check_editable(model, [_point(layer)])
        mine = torch.arange(model.cfg.n_heads)[:, None] == head
        hooks: Hooks = [(_point(layer), partial(put, where=mine, values=torch.zeros(())))]
        after = correct(edited_logits(model, batch.tokens, hooks).cpu(), batch)
        fallen.append((right & (after < 1)).sum(-1).double() / right.sum(-1))
    return Measurement(
        name="Right answers that fall without a head",
        values=torch.stack(fallen).numpy(),
        dims=(REMOVED, "example"),
        coords={REMOVED: [head_in_words(*head) for head in heads], "example": range(len(batch))},
        units="share",
        settings={"model": subject.name},
        caption="Of the answers that are right, each predicted from the true tokens before it, the share that is wrong "
        "when the head writes nothing. A head whose work another one can do falls out of sight here.",
    )


def costliest(fallen: Measurement, own: int) -> int:
    """Which removed head costs clearly more right answers than one of them; that one itself if none does.

    Args:
        fallen: `fallen_without(…).mean("example")`: dim `removed`, with intervals.
        own: the position along `removed` of the head that the others are held against.

    Returns:
        The position of the head without which most right answers change, if its whole interval lies above that of
        `own`.
    """
    if fallen.low is None or fallen.high is None or np.isnan(fallen.values).all():
        return own
    most = int(np.nanargmax(fallen.values))
    return most if fallen.low[most] > fallen.high[own] else own


def _point(layer: int) -> str:
    return f"blocks.{layer}.attn.hook_z"
