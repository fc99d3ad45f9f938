"""Copy: before the delimiter, the residual points at the position's own token in the encoder basis.

Task hinting and tempered softmax, §5, for sorting. Scored after attention and after the MLP of every layer. Caveat: the
embedding is itself part of the residual, so an untrained model scores high too. The finding is that training *keeps*
the token while other things are written; score an untrained model of the same shape beside it. The control
(`mismatched`, the tokens of another example) only rules out chance. It does not show that later layers use the copy.
"""

from __future__ import annotations

import numpy as np
import torch

from workbench.capture import Capture, Subject
from workbench.instruments import projection
from workbench.instruments.measurement import Measurement
from workbench.mechanisms.base import missing

CONTROLS = ("mismatched", "untrained")

needs = projection.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    return missing(subject, "minimum")


def score(capture: Capture) -> Measurement:
    """Share of the positions before the delimiter at which it holds: dims `point` (hook name), `example`."""
    tokens = capture.batch.tokens
    at_delimiter = capture.truth.labels["minimum"] >= 0
    before = torch.arange(tokens.shape[1]) < at_delimiter.long().argmax(-1, keepdim=True)
    points = needs(capture.subject)
    shares = []
    for point in points:
        top = projection.inner_products(capture.subject, capture[point], "encoder").argmax(-1).cpu()
        shares.append((((top == tokens) & before).sum(-1) / before.sum(-1)).double().numpy())
    return Measurement(
        name="Copy before the delimiter",
        values=np.stack(shares),
        dims=("point", "example"),
        coords={"point": points, "example": range(len(tokens))},
        units="share",
        settings={"model": capture.subject.name, "basis": "encoder"},
        caption="Share of input positions whose own token is the top one in the encoder basis. The embedding is in the "
        "residual from the start, so an untrained model scores high too.",
    )
