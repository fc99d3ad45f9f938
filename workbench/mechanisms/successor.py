"""Identity + successor: after the second attention layer, outputs point at their own and the next sorted token.

Task hinting and tempered softmax, §5, for sorting: output positions but the last, at `blocks.1.hook_resid_mid`, in the
decoder basis. It holds where the two top tokens are the position's own and the next sorted one, or, where these are
equal, where that one is on top. (The second MLP then removes the identity peak.) It does not show that the output
depends on it. Control: the tokens of another example of equal length (`mismatched`).
"""

from __future__ import annotations

import torch

from workbench.capture import Capture, Subject
from workbench.instruments import projection
from workbench.instruments.measurement import Measurement
from workbench.mechanisms.base import missing

CONTROLS = ("mismatched", "untrained")

POINT = "blocks.1.hook_resid_mid"


def needs(subject: Subject) -> list[str]:
    return [POINT]


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    return missing(subject, "identity", "successor", layers=2)


def score(capture: Capture) -> Measurement:
    """Share of output positions but the last at which it holds (NaN where there is none): dim `example`."""
    own, following = capture.truth.labels["identity"], capture.truth.labels["successor"]
    top = projection.inner_products(capture.subject, capture[POINT], "decoder").topk(2).indices.cpu()
    first, second = top.unbind(-1)
    pair = ((first == own) & (second == following)) | ((first == following) & (second == own))
    holds = torch.where(own == following, first == own, pair)
    scored = following >= 0
    share = ((holds & scored).sum(-1) / scored.sum(-1)).double()
    return Measurement(
        name="Identity + successor at the outputs",
        values=share.numpy(),
        dims=("example",),
        coords={"example": range(len(own))},
        units="share",
        settings={"model": capture.subject.name, "basis": "decoder", "point": POINT},
        caption="Share of output positions but the last whose two top tokens in the decoder basis, after the second "
        "attention layer, are their own and the next sorted one. It does not show that the output depends on it.",
    )
