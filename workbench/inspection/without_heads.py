"""What is lost of a model's answers when one head after the other writes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.interventions import Head, Hooks
from workbench.interventions.edit import check_head, edited_logits, put
from workbench.models import AnyHooked
from workbench.models.facts import check_editable
from workbench.tasks import Batch, correct
from workbench.util.progress import steps

AT_ONCE = 8  # sequences: the logits of a large vocabulary are large

Answered = tuple[Bool[Tensor, "batch pos"], Float[Tensor, "batch pos"]]
"""Whether each answer is right, and the log-probability of the right one."""


def answered(model: AnyHooked, batch: Batch, hooks: Hooks = ()) -> Answered:  # type: ignore[assignment]
    """How a model answers, with these hooks. Of answers that are sets the log-probability is 0."""
    right, known = [], []
    for start in range(0, len(batch), AT_ONCE):
        part = batch[start : start + AT_ONCE]
        logits = edited_logits(model, part.tokens, list(hooks)).cpu()
        right.append((correct(logits, part) == 1) & part.loss_mask)
        one_of_a_set = part.targets.ndim == 3
        known.append(
            torch.zeros(part.tokens.shape)
            if one_of_a_set
            else logits.gather(-1, part.targets[..., None])[..., 0] - logits.logsumexp(-1)
        )
    return torch.cat(right), torch.cat(known)


@torch.no_grad()
def lost_without(
    model: AnyHooked,
    batch: Batch,
    heads: Sequence[Head],
    at: Mapping[str, Bool[Tensor, "batch pos"]],
    *,
    keep: bool = False,
) -> dict[Head, dict[str, Float[Tensor, "measure example"]]]:
    """What each head's absence costs: head -> name of positions -> two shares of each example's right answers there.

    The first is of the answers that turn wrong; the second of the right answers' probability, which falls by little
    where it is an answer's rank alone that changes, as of models that hold all tokens as likely. NaN where none is
    right.

    Args:
        model, batch: the hooked model, and what it runs on.
        heads: that write nothing, one at a time.
        at: name -> the positions that count.
        keep: whether Ctrl-C keeps the heads that are done: the others are then not there.

    Raises:
        ValueError: if there is no such head, or the model does not show or read what it reads.
    """
    right, before = answered(model, batch)
    lost = {}
    for layer, head in steps(heads, "removing heads one by one", keep=keep):
        check_head(model, layer, head)
        check_editable(model, [point := f"blocks.{layer}.attn.hook_z"])
        mine: Any = torch.arange(model.cfg.n_heads)[:, None] == head
        after = answered(model, batch, [(point, partial(put, where=mine, values=torch.zeros(())))])
        shares = torch.stack([(~after[0]).double(), (1 - (after[1] - before).exp()).clamp(0, 1).double()])
        counted = {name: right & positions for name, positions in at.items()}
        lost[layer, head] = {name: (shares * where).sum(-1) / where.sum(-1) for name, where in counted.items()}
    return lost
