"""Overall accuracy: the share of the answers' positions that are right, and of answers that are right throughout.

Shows: two single numbers for a test set. Of a chain of thought before an answer, which is given, nothing counts, so
that runs with and without one compare (`of="all"`: all that the loss is on counts). Does not show: where the errors
lie (see `accuracy`); how long sequences are decides how far the two lie apart. Predictions are made with the true
tokens before them, not with the model's own (see `exact_match`). Control: the same logits beside the answers of other
examples (`mismatched`).
"""

from __future__ import annotations

import torch

from workbench.capture import Capture
from workbench.instruments.answers.scored_positions import Of, scored, scored_in_words
from workbench.instruments.shared import logits_alone, no_reason
from workbench.measurement import Measurement
from workbench.tasks import correct, whole

CONTROLS = ("mismatched",)

needs, why_not = logits_alone, no_reason


def measure(capture: Capture, *, of: Of = "answer") -> Measurement:
    """Accuracy of each example: dims `unit` (`position`, `sequence`), `example`; NaN where nothing counts.

    Args:
        capture: with the logits.
        of: `answer`, or `all`: a chain of thought before it too.

    Raises:
        ValueError: if `of` is neither.
    """
    batch, logits = scored(capture, of), capture.logits.cpu()
    mask = batch.loss_mask
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
        f"{scored_in_words(capture, of)}, each predicted from the true tokens before it.",
    )
