"""Overall accuracy: the share of the answers' positions that are right, and of answers that are right throughout.

Shows: two single numbers for a test set. Of a chain of thought before an answer, which is given, nothing counts, so
that runs with and without one compare (`of="all"`: all that the loss is on counts). Does not show: where the errors
lie (see `accuracy`); how long sequences are decides how far the two lie apart. Predictions are made with the true
tokens before them, not with the model's own (see `exact_match`). Control: the same logits beside the answers of other
examples (`mismatched`).
"""

from __future__ import annotations

from typing import Literal, get_args

import torch

from workbench.capture import Capture
from workbench.instruments.shared import logits_alone, no_reason
from workbench.measurement import Measurement
from workbench.tasks import Batch, correct, whole

Of = Literal["answer", "all"]

CONTROLS = ("mismatched",)

needs, why_not = logits_alone, no_reason


def scored(capture: Capture, of: Of) -> tuple[Batch, str]:
    """A capture's batch, its loss mask true at the positions that count, and what of a thought counts, for captions.

    These words are empty where there is no chain of thought. Raises ValueError if `of` is unknown.
    """
    if of not in get_args(Of):
        raise ValueError(f"of is {' or '.join(map(repr, get_args(Of)))}, not {of!r}")
    task, batch = capture.subject.task, capture.batch
    thought = bool((task.answer_mask(batch) != batch.loss_mask).any())
    if of == "answer":
        return task.answer_alone(batch), " (the chain of thought before the answer does not count)" * thought
    return batch, " (a chain of thought too)" * thought


def measure(capture: Capture, *, of: Of = "answer") -> Measurement:
    """Accuracy of each example: dims `unit` (`position`, `sequence`), `example`; NaN where nothing counts.

    Args:
        capture: with the logits.
        of: `answer`, or `all`: a chain of thought before it too.

    Raises:
        ValueError: if `of` is neither.
    """
    batch, thought = scored(capture, of)
    logits, mask = capture.logits.cpu(), batch.loss_mask
    positions = correct(logits, batch).double().sum(-1) / mask.sum(-1)
    sequences = torch.where(mask.any(-1), whole(logits, batch).double(), torch.nan)
    return Measurement(
        name="Accuracy",
        values=torch.stack([positions, sequences]).numpy(),
        dims=("unit", "example"),
        coords={"unit": ("position", "sequence")},
        units="share",
        settings={"model": capture.subject.name, "of": of},
        caption="Share of scored positions that are right, and of sequences with every scored position right"
        f"{thought}, each predicted from the true tokens before it.",
    )
