"""RankMe: how many directions the vectors of many sequences occupy (Garrido et al., 2023, arXiv 2210.02885, Eq. 1).

exp(−Σ p_k log p_k), with p_k = σ_k / Σ σ + ε for the singular values σ of the matrix of vectors, one a sequence.
Shows: how far the representations of a data set have collapsed into few directions; needs no answers. Does not show:
which directions they are, or whether they tell answers apart (see `lidar`); a large mean lowers it, since nothing is
centred. Of the tokens of one sequence, without ε, it is `effective_rank`. Control: a re-initialised model of the same
shape on the same sequences.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.instruments.sets.over_sequences import At, over_sequences
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch

CONTROLS = ("untrained",)
NEEDS_ANSWERS = False
EPSILON = 1e-7  # the paper's, for float32

why_not = no_reason


def shannon_rank(values: Float[Tensor, " n"]) -> float:
    """exp(−Σ p log p) with p = values / Σ values + ε: the form that RankMe and LiDAR share; 1 where all are zero."""
    total = values.sum()
    if total == 0:
        return 1.0
    p = values / total + EPSILON
    return float((-(p * p.log()).sum()).exp())


def rankme(z: Float[Tensor, "n d"]) -> float:
    """RankMe of the rows of a matrix, in float64."""
    return shannon_rank(torch.linalg.svdvals(z.double()))


class _RankMeStream:
    """RankMe of more rows than fit in memory: the triangle of their QR factors has their singular values."""

    def __init__(self) -> None:
        self.n = 0
        self._triangle: Tensor | None = None

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[Hashable] = (), questions: Sequence[int] = ()) -> None:
        """Rows; of their answers and questions nothing is used."""
        whole = rows.double() if self._triangle is None else torch.cat([self._triangle, rows.double()])
        self._triangle, self.n = torch.linalg.qr(whole, mode="r").R, self.n + len(rows)

    def value(self) -> float:
        """RankMe of all rows so far.

        Raises:
            ValueError: if there were none.
        """
        if self._triangle is None:
            raise ValueError("there is no rank of nothing: add vectors first")
        return rankme(self._triangle)


def measure(
    model: AnyHooked | AnyModel,
    subject: Subject,
    batches: Iterable[Batch],
    *,
    at: At | None = None,
    points: Sequence[str] | None = None,
) -> Measurement:
    """RankMe of one vector a sequence at every residual point, before the final norm: dim `layer`.

    Args:
        model, subject, batches, points: as for `over_sequences`, which holds one batch in memory.
        at: the first or last scored position of the answer; see `sets.over_sequences.answer_positions`.

    Raises:
        ValueError: as `over_sequences` does.
    """
    streams = over_sequences(_RankMeStream, model, subject, batches, at=at, points=points)
    n = [stream.n for stream in streams.values()]
    return Measurement(
        name="RankMe",
        values=np.array([stream.value() for stream in streams.values()]),
        dims=("layer",),
        coords={"layer": list(streams)},
        units="directions",
        settings={"model": subject.name, "at": at, "epsilon": EPSILON, "together": True},
        n=np.array(n),
        caption=f"Effective number of directions of {n[0]:,} vectors, one a sequence, where the answer is asked for; "
        "before the final norm. It does not say which, or whether they tell answers apart.",
    )
