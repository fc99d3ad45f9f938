"""Anisotropy: how alike the directions of a sequence's token representations are, layer by layer (Ethayarajh, 2019).

The mean cosine between the representations of two tokens. Ethayarajh pairs words from anywhere in a corpus; here both
are of one sequence, so that what tokens share through their context counts too.
Shows: whether tokens point into a narrow cone (1: all into one direction; 0: on average none is preferred).
Does not show: how many directions the rest spreads over (see `effective_rank`), or whether anything is lost: what tells
tokens apart may lie beside a large common mean. Control: a re-initialised model of the same shape on the same
sequences.
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

needs, why_not = from_embedding, no_reason


def _mean_cosine(z: Float[Tensor, "n pos d"]) -> Float[Tensor, " n"]:
    """The mean cosine over all pairs of two rows, in float64: (‖Σ u‖² − m) / m(m−1) over the m rows that are not zero.

    NaN with fewer than two such rows. Raises ValueError if z holds NaN or infinity.
    """
    unit = prepare(in_range(z, torch.float64).double(), centre=False, unit_rows=True, dtype=torch.float64)
    m = (unit != 0).any(-1).sum(-1).double()
    return (unit.sum(-2).square().sum(-1) - m) / torch.where(m > 1, m * (m - 1), torch.nan)


def measure(capture: Capture, *, positions: Positions = "all", points: Sequence[str] | None = None) -> Measurement:
    """Mean cosine between two tokens of every example at every residual point: dims `layer`, `example`.

    Over the real tokens of a sequence, before the final norm; NaN where there are fewer than two in the range.

    Args:
        capture: activations `[batch, pos, d]` of the points.
        positions: `"all"`, `"input"`, `"output"` or a slice `(start, stop)`, as for `entropy.measure`.
        points: hook names, by default those of `needs`.

    Raises:
        ValueError: if positions are unknown, or a point was not captured.
    """
    return by_layer(
        capture,
        _mean_cosine,
        name="Anisotropy",
        units="cosine",
        positions=positions,
        points=points,
        caption="Mean cosine between two tokens of one sequence, before the final norm. High means a shared direction, "
        "not that tokens cannot be told apart.",
    )
