"""Curvature: by how much the path of a sequence's representations turns at each token (Hosseini & Fedorenko, 2023).

The angle between z[t+1] - z[t] and z[t+2] - z[t+1], as its mean over a sequence; the measure of "Layer by Layer" (Skean
et al., 2025) too. Shows: whether a layer straightens the sequence (0: a straight line; π: back and forth).
Does not show: how far the steps go, or what lies along them. The null is not π/2: independent tokens of one
distribution turn by 2π/3 on average in high dimensions, since two neighbouring steps share a token with opposite sign.
Control: a re-initialised model of the same shape on the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.gram_matrix import in_range, prepare
from workbench.instruments.residual.per_sequence import Positions, by_layer
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement

CONTROLS = ("untrained",)
EQUAL = 16  # units of rounding of the longest row, within which two rows are one

needs, why_not = from_embedding, no_reason


def curvature(z: Float[Tensor, "n pos d"]) -> Float[Tensor, " n"]:
    """The mean angle in radians between successive steps from token to token, in float64.

    Two equal neighbours make a step of length 0, which has no direction: the turns before and after it do not count.
    Equal are those that only rounding tells apart, such as one token twice in a model without positions.
    NaN where no turn is left, as with fewer than three tokens. Raises ValueError if z holds NaN or infinity.
    """
    tokens = in_range(z, torch.float64).double()
    steps = tokens.diff(dim=-2)
    least = EQUAL * torch.finfo(z.dtype).eps * tokens.norm(dim=-1).amax(-1)  # [n], of what rounding alone makes
    steps = torch.where(steps.norm(dim=-1, keepdim=True) > least[:, None, None], steps, 0.0)
    steps = prepare(steps, centre=False, unit_rows=True, dtype=torch.float64)
    before, after = steps[:, :-1], steps[:, 1:]
    # Not by arccos of the inner product: near 0 and π that keeps half of the digits
    angles = 2 * torch.atan2((before - after).norm(dim=-1), (before + after).norm(dim=-1))
    turns = (before != 0).any(-1) & (after != 0).any(-1)
    count = turns.sum(-1)
    return torch.where(turns, angles, 0.0).sum(-1) / torch.where(count > 0, count, torch.nan)


def measure(capture: Capture, *, positions: Positions = "all", points: Sequence[str] | None = None) -> Measurement:
    """Mean angle between successive steps of every example at every residual point: dims `layer`, `example`.

    Over the real tokens of a sequence, before the final norm; NaN where there are fewer than three in the range.

    Args:
        capture: activations `[batch, pos, d]` of the points.
        positions: `"all"`, `"input"`, `"output"` or a slice `(start, stop)`, as for `entropy.measure`.
        points: hook names, by default those of `needs`.

    Raises:
        ValueError: if positions are unknown, or a point was not captured.
    """
    return by_layer(
        capture,
        curvature,
        name="Curvature",
        units="radians",
        positions=positions,
        points=points,
        caption="Mean angle between one token's step to the next and the step after that, before the final norm: 0 is "
        "a straight line, and independent tokens turn by about 2π/3 = 2.09. It says nothing of how far the steps go.",
    )
