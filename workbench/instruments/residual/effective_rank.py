"""Effective rank: how many directions a sequence's representations occupy, as a number (Roy & Vetterli, 2007).

The exponential of the Shannon entropy of the *singular values* of Z over their sum. Of the *eigenvalues* of Z Zᵀ, which
are their squares, it is the exponential of the matrix entropy of order 1: never larger, since squares favour the large.
Shows: the spread of the spectrum in units that can be counted; between 1 and the rank. Does not show: which directions
they are, or whether later layers use them; a large mean and a shorter sequence lower it. Control: a re-initialised
model of the same shape on the same sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.dominant_rows import ASIDE, with_others
from workbench.instruments.residual.gram_matrix import in_range, prepare
from workbench.instruments.residual.per_sequence import Positions, by_layer
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.residual.renyi import ZERO, matrix_entropy, spectrum_entropy
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement

Of = Literal["singular_values", "eigenvalues"]

CONTROLS = ("untrained",)

needs, why_not = from_embedding, no_reason


def effective_rank(
    z: Float[Tensor, "n pos d"], *, of: Of = "singular_values", centre: bool = False, unit_rows: bool = False
) -> Float[Tensor, " n"]:
    """Exponential of H(p), p being the singular values of Z over their sum, or their squares over the squares' sum.

    In float64. A zero matrix, or what centring leaves of equal rows, counts as one direction.

    Raises:
        ValueError: if `of` is neither, or z holds NaN or infinity.
    """
    if of not in get_args(Of):
        raise ValueError(f"unknown spectrum {of!r}; there is: {', '.join(get_args(Of))}")
    if of == "eigenvalues":
        return matrix_entropy(z.double(), centre=centre, unit_rows=unit_rows).exp()
    rows = prepare(in_range(z, torch.float64), centre, unit_rows, torch.float64).double()
    values = torch.linalg.svdvals(rows.mT if rows.shape[-2] < rows.shape[-1] else rows)  # LAPACK is faster on tall ones
    total = values.sum(-1, keepdim=True)
    shares = values / torch.where(total > 0, total, 1.0)
    return spectrum_entropy(torch.where(shares > ZERO, shares, 0.0), alpha=1).exp()


def measure(
    capture: Capture,
    *,
    of: Of = "singular_values",
    centre: bool = False,
    unit_rows: bool = False,
    positions: Positions = "all",
    points: Sequence[str] | None = None,
) -> Measurement:
    """Effective rank of every example at every residual point, before the final norm: dims `layer`, `example`.

    Over the real tokens of a sequence; NaN where it has none in the range.

    Args:
        capture: activations `[batch, pos, d]` of the points.
        of: `"singular_values"` or `"eigenvalues"`; see `effective_rank`.
        centre, unit_rows: subtract the mean row, then scale each row to length 1.
        positions: `"all"`, `"input"`, `"output"` or a slice `(start, stop)`, as for `entropy.measure`.
        points: hook names, by default those of `needs`.

    Raises:
        ValueError: if a setting is unknown, or a point was not captured.
    """
    how: dict[str, Any] = {"of": of, "centre": centre, "unit_rows": unit_rows}
    return by_layer(
        capture,
        partial(with_others, measure=effective_rank, **how),
        name="Effective rank",
        units="directions",
        settings=how,
        positions=positions,
        points=points,
        aside=ASIDE,
        caption=f"Exponential of the entropy of the {of.replace('_', ' ')} of one sequence's tokens, before the final "
        "norm. It counts directions, not what they mean; a large mean or a shorter sequence lowers it.",
    )
