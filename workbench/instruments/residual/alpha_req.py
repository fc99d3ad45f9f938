"""α-ReQ: how fast the eigenvalues of a sequence's representations fall, as the exponent of a power law.

λ_i ∝ i^(-α) for the eigenvalues of the covariance of the tokens (Agrawal et al., 2022, after Stringer et al., 2019).
Shows: whether few directions hold nearly all variance (large α) or many hold it alike (α near 0); around 1 the paper
finds representations that generalise best. Does not show: whether the spectrum is a power law at all (look at
`spectrum`), nor which directions they are; a sequence has no more eigenvalues than tokens, and the exponent of so few
is rough. Control: a re-initialised model of the same shape on the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.per_sequence import Positions, by_layer
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.residual.renyi import ZERO
from workbench.instruments.residual.spectrum import spectrum
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement

CONTROLS = ("untrained",)
FEWEST = 3  # eigenvalues; through two of them every line fits

needs, why_not = from_embedding, no_reason


def alpha_req(
    z: Float[Tensor, "n pos d"], *, first: int = 1, last: int | None = None, centre: bool = True
) -> Float[Tensor, " n"]:
    """Minus the slope of log λ over log i, by least squares with the weights 1 / i, in float64.

    The weights are those of the published code, which make every part of the logarithmic axis count as much.

    Args:
        z: one sequence's tokens in each row.
        first, last: the eigenvalues that are fitted, largest first and from 1; by default all that are not zero.
        centre: of the covariance; otherwise of the second moments, whose first direction is mostly the mean.

    Returns NaN where fewer than three eigenvalues are left.

    Raises:
        ValueError: if first is below 1 or last is less than two after it, or z holds NaN or infinity.
    """
    if first < 1 or (last is not None and last < first + FEWEST - 1):
        raise ValueError(f"a power law needs {FEWEST} eigenvalues or more, from 1; not {first} to {last}")
    shares = spectrum(z, min(z.shape[-2:]), centre=centre)
    rank = torch.arange(1, shares.shape[-1] + 1, device=shares.device, dtype=shares.dtype)
    fitted = (shares > ZERO) & (rank >= first) & (rank <= (torch.inf if last is None else last))
    weights = fitted / rank
    x, y = rank.log().expand_as(shares), torch.where(fitted, shares, 1.0).log()
    total = weights.sum(-1, keepdim=True)
    x_centred = x - (weights * x).sum(-1, keepdim=True) / torch.where(total > 0, total, 1.0)
    slope = (weights * x_centred * y).sum(-1) / (weights * x_centred.square()).sum(-1)
    return torch.where(fitted.sum(-1) >= FEWEST, -slope, torch.nan)


def measure(
    capture: Capture,
    *,
    first: int = 1,
    last: int | None = None,
    centre: bool = True,
    positions: Positions = "all",
    points: Sequence[str] | None = None,
) -> Measurement:
    """Exponent α of every example at every residual point, before the final norm: dims `layer`, `example`.

    Over the real tokens of a sequence; NaN where they have fewer than three eigenvalues in the range.

    Args:
        capture: activations `[batch, pos, d]` of the points.
        first, last, centre: as for `alpha_req`.
        positions: `"all"`, `"input"`, `"output"` or a slice `(start, stop)`, as for `entropy.measure`.
        points: hook names, by default those of `needs`.

    Raises:
        ValueError: if a setting is unknown, or a point was not captured.
    """
    how: dict[str, Any] = {"first": first, "last": last, "centre": centre}
    return by_layer(
        capture,
        lambda z: alpha_req(z, **how),
        name="α-ReQ",
        units="exponent α",
        settings=how,
        positions=positions,
        points=points,
        caption="Exponent of the power law fitted to the eigenvalues of one sequence's tokens, before the final norm: "
        "large where few directions hold nearly all. It does not say whether they follow a power law.",
    )
