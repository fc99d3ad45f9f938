"""Unexplained: the share of the residual's squared norm that lies outside the span of the bases.

Shows: how much of what the model writes no combination of tokens accounts for, of the encoder basis, of the decoder
basis, or of both together; the figures of `projection` are silent about that part. Does not show: that what lies
within means those tokens, since any vector lies within a basis of full rank: there the share is 0, whatever the model
does. Control: a re-initialised model, whose residual is its embedding but for a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.residual.projection import from_embedding, real_positions, rounding
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement

SPANS = ("encoder", "decoder", "both")
CONTROLS = ("untrained",)
ROWS = 8192  # of a basis, factorised at a time

needs, why_not = from_embedding, no_reason


@lru_cache(maxsize=6)
def span(*bases: Float[Tensor, "token d_model"]) -> Float[Tensor, "d_model rank"]:
    """Orthonormal columns that span the rows of these bases together, in float64, up to their `rounding`.

    Of many rows they are those of the triangle of their QR factors, which has the same singular values and right
    vectors: taken `ROWS` at a time, a large vocabulary does not stand in memory twice more.
    """
    n_rows = sum(len(basis) for basis in bases)
    if n_rows <= ROWS:
        rows = torch.cat([basis.double() for basis in bases])
    else:
        rows = bases[0][:0].double()
        for some in (part for basis in bases for part in basis.split(ROWS)):
            rows = torch.linalg.qr(torch.cat([rows, some.double()]), mode="r").R
    _, singular, directions = torch.linalg.svd(rows, full_matrices=False)
    return directions[singular > rounding(bases[0], n_rows) * singular[0]].T


@torch.no_grad()
def _share_outside(
    residual: Float[Tensor, "*batch d_model"], columns: Float[Tensor, "d_model rank"]
) -> Float[Tensor, "*batch"]:
    """‖x − Q Qᵀ x‖² / ‖x‖² for orthonormal columns Q, in float64; NaN for x = 0."""
    x = residual.double()
    outside = x - (x @ columns) @ columns.T
    return outside.square().sum(-1) / x.square().sum(-1)


def _spans(subject: Subject) -> dict[str, Float[Tensor, "d_model rank"]]:
    """The columns of `span` for each of `SPANS`."""
    encoder, decoder = subject.encoder, subject.decoder
    return {"encoder": span(encoder), "decoder": span(decoder), "both": span(encoder, decoder)}


def measure(capture: Capture, *, final_norm: bool = False, points: Sequence[str] | None = None) -> Measurement:
    """Share of the squared norm outside each span, averaged over real positions: dims `basis`, `point`, `example`.

    `basis` is `encoder`, `decoder` or `both` (the span of the two together); positions where the residual is zero are
    left out. With `final_norm` the residual passes through the model's final norm first. Points are hook names of
    residuals, by default those of `needs`. The settings hold each span's rank and d_model.
    """
    subject = capture.subject
    points, columns = needs(subject) if points is None else list(points), _spans(subject)
    real = real_positions(capture)
    values = np.empty((len(SPANS), len(points), len(real)))
    for p, point in enumerate(points):
        residual = subject.final_norm(capture[point]).detach() if final_norm else capture[point]
        for b, name in enumerate(SPANS):
            share = _share_outside(residual, columns[name]).cpu()
            values[b, p] = share.where(real, torch.nan).nanmean(-1).numpy()
    return Measurement(
        name="Residual outside the bases",
        values=values,
        dims=("basis", "point", "example"),
        coords={"basis": SPANS, "point": points},
        units="share",
        settings={
            "model": subject.name,
            "final_norm": final_norm,
            "rank": {name: own.shape[1] for name, own in columns.items()},
            "d_model": subject.encoder.shape[1],
        },
        caption="Share of the residual's squared norm outside the span of the basis, averaged over positions. A basis "
        "whose rank is the width of the residual spans everything, and the share is then 0 whatever the model does.",
    )
