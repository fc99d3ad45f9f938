"""Minimum: at the delimiter, the first attention layer writes the smallest input token, in the decoder basis.

Task hinting and tempered softmax, §5, for sorting: the smallest token is the first output, so one layer of attention is
enough to begin. Read at `blocks.0.hook_resid_mid`. It does not show that the output depends on it. Control: the minimum
of another example of equal length (`mismatched`); small alphabets and long inputs make minima agree by chance.
"""

from __future__ import annotations

import torch

from workbench.capture import Capture, Subject
from workbench.instruments import projection
from workbench.instruments.measurement import Measurement
from workbench.mechanisms.base import missing

CONTROLS = ("mismatched", "untrained")

POINT = "blocks.0.hook_resid_mid"


def needs(subject: Subject) -> list[str]:
    return [POINT]


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    return missing(subject, "minimum")


def score(capture: Capture) -> Measurement:
    """Whether the delimiter's top token is the minimum: 1 or 0 an example (NaN without a delimiter); dim `example`."""
    minimum = capture.truth.labels["minimum"]
    top = projection.inner_products(capture.subject, capture[POINT], "decoder").argmax(-1).cpu()
    holds = ((top == minimum) & (minimum >= 0)).any(-1).double()
    return Measurement(
        name="Minimum at the delimiter",
        values=torch.where((minimum >= 0).any(-1), holds, torch.nan).numpy(),
        dims=("example",),
        coords={"example": range(len(minimum))},
        units="share",
        settings={"model": capture.subject.name, "basis": "decoder", "point": POINT},
        caption="Share of sequences whose delimiter points at the smallest input token in the decoder basis after the "
        "first attention layer. It does not show that the output depends on it.",
    )
