"""What becomes of answers under an edit: the model runs with and without it, all examples at once, one answer each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from workbench.capture import Subject
from workbench.interventions.batch_edits import ReadBy, SpanEdit
from workbench.interventions.sampling import at_position
from workbench.measurement import Measurement
from workbench.util.ties import clear

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

OUTCOMES = ("as claimed", "changed")


@dataclass(frozen=True)
class Question:
    """One answer of each example.

    Attributes:
        position: the position whose logits give the answer.
        answer: the right answer.
    """

    position: Int[Tensor, " batch"]
    answer: Int[Tensor, " batch"]


@torch.no_grad()
def answers(
    model: AnyHooked,
    tokens: Int[Tensor, "batch pos"],
    position: Int[Tensor, " batch"],
    edit: SpanEdit | ReadBy | None,
) -> Int[Tensor, " batch"]:
    """The class with the largest logit at one position of each example, after an edit if there is one; −1 for a tie."""
    with model.hooks(fwd_hooks=[] if edit is None else edit.hooks(model, tokens)):
        logits = model(tokens)
    return clear(at_position(logits, position)).cpu()


def outcomes(
    model: AnyHooked,
    subject: Subject,
    tokens: Int[Tensor, "batch pos"],
    question: Question,
    edits: Mapping[str, SpanEdit | ReadBy],
    *,
    name: str,
    caption: str,
    edited: str | None = None,
) -> Measurement:
    """Whether each example's answer becomes what the claim predicts, and whether it changes at all.

    An answer is tested if it is right before the edit and another one is predicted. A tie counts as changed only.

    Args:
        model, subject, tokens, question: the hooked model, its facts, what it runs on, and the answers that are tested.
        edits: name (`claimed`, …, `elsewhere`) -> edit.
        name, caption: name and caption of the measurement.
        edited: where the edit is made, in words, if not in the whole residual.

    Returns 1 or 0, NaN where an example allows no test: dims `edit`, `outcome` (`as claimed`, `changed`), `example`.
    """
    before = answers(model, tokens, question.position, None)
    values = np.full((len(edits), len(OUTCOMES), len(tokens)), np.nan)
    for i, edit in enumerate(edits.values()):
        after = answers(model, tokens, question.position, edit)
        tested = edit.span.any(-1) & (before == question.answer) & (edit.predicted != before)
        became = torch.stack([after == edit.predicted, after != before]).double()  # in the order of OUTCOMES
        values[i] = torch.where(tested, became, torch.nan).numpy()
    points, where = {name: edit.point for name, edit in edits.items()}, {} if edited is None else {"edited": edited}
    return Measurement(
        name=name,
        values=values,
        dims=("edit", "outcome", "example"),
        coords={"edit": list(edits), "outcome": OUTCOMES, "example": range(len(tokens))},
        units="share",
        settings={"model": subject.name, "points": points, **where},
        caption=f"{caption} Over answers that are right before the edit, one an example.",
    )
