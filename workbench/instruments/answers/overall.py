"""Overall accuracy: the share of scored positions that are right, and of sequences that are right throughout.

Shows: two single numbers for a test set. Does not show: where the errors lie (see `accuracy`); how long sequences are
decides how far the two lie apart. Predictions are made with the true answer before them, not with the model's own.
Control: the same logits beside the answers of other examples (`mismatched`).
"""

from __future__ import annotations

import torch

from workbench.capture import LOGITS, Capture, Subject
from workbench.measurement import Measurement
from workbench.tasks import correct, whole

CONTROLS = ("mismatched",)


def why_not(subject: Subject) -> str | None:
    """It can be measured on every model and task."""
    return None


def needs(subject: Subject) -> list[str]:
    """The logits alone."""
    return [LOGITS]


def measure(capture: Capture) -> Measurement:
    """Accuracy of each example: dims `unit` (`position`, `sequence`), `example`; NaN where nothing is scored."""
    mask, logits = capture.batch.loss_mask, capture.logits.cpu()
    positions = correct(logits, capture.batch).double().sum(-1) / mask.sum(-1)
    sequences = torch.where(mask.any(-1), whole(logits, capture.batch).double(), torch.nan)
    return Measurement(
        name="Accuracy",
        values=torch.stack([positions, sequences]).numpy(),
        dims=("unit", "example"),
        coords={"unit": ("position", "sequence"), "example": range(len(mask))},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of scored positions that are right, and of sequences with every scored position right, each "
        "predicted from the true tokens before it.",
    )
