"""LiDAR: in how many directions different answers lie apart (Thilak et al., 2024, arXiv 2312.04000, Eq. 1-3).

The effective rank of Σ_w^(-1/2) Σ_b Σ_w^(-1/2): between the means of the answers, in units of the spread within an
answer. The paper's positives are augmentations of one picture; here they are other questions with the same answer,
which the task's truth knows. Shows: how many directions answers are told apart by, against what differs between
questions of one answer. Does not show: whether the model reads them, nor how far apart answers are: a scale changes
nothing but what the paper's δ adds to Σ_w. At most one fewer than there are answers. Controls: a re-initialised model
of the same shape on the same sequences; and the answers shuffled (`shuffled=True`), which leave chance alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.instruments.sets.over_sequences import CannotMeasureError, over_sequences, where_settings
from workbench.instruments.sets.rankme import EPSILON, shannon_rank
from workbench.instruments.shared import no_reason
from workbench.measurement import Measurement
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch

CONTROLS = ("untrained",)
NEEDS_ANSWERS = True
DELTA = 1e-4  # the paper's, in the units of the representations squared

why_not = no_reason


class _LidarStream:
    """The scatter within and between answers, from sums that add up: a mean for each answer, and one d × d matrix.

    Σ_b = Σ_c n_c/N (μ_c − μ)(μ_c − μ)ᵀ and Σ_w = 1/N Σ_c Σ_i (x_ci − μ_c)(x_ci − μ_c)ᵀ + δ I over the answers c that
    came at least twice. The paper's are these with every n_c the same, as augmentations are; answers are not.
    """

    def __init__(self, delta: float = DELTA) -> None:
        if delta <= 0:
            raise ValueError(f"delta must be greater than 0, or Σ_w has no inverse; not {delta}")
        self.delta = delta
        self.number: dict[Hashable, int] = {}
        self._counts, self._means, self._within = torch.zeros(0), torch.zeros(0, 0), torch.zeros(0, 0)

    def add(self, rows: Float[Tensor, "n d"], answers: Sequence[Hashable], questions: Sequence[int] = ()) -> None:
        """Rows with their answers; the same question again counts again."""
        rows, d = rows.double(), rows.shape[1]
        which = torch.tensor([self.number.setdefault(answer, len(self.number)) for answer in answers])
        fresh = len(self.number) - len(self._counts)
        old = self._means if self._means.shape[1] else torch.zeros(0, d)
        self._means = torch.cat([old.double(), torch.zeros(fresh, d, dtype=torch.float64)])
        self._counts = torch.cat([self._counts.double(), torch.zeros(fresh, dtype=torch.float64)])
        n = torch.bincount(which, minlength=len(self.number)).double()
        means = torch.zeros_like(self._means).index_add_(0, which, rows) / n.clamp(min=1)[:, None]
        # Less their means before they are multiplied, so that a large one cancels nothing
        inside, apart = rows - means[which], means - self._means
        weight = n * self._counts / (n + self._counts).clamp(min=1)
        scatter = inside.T @ inside + (apart * weight[:, None]).T @ apart
        self._within = scatter if not len(self._within) else self._within + scatter
        self._means = self._means + apart * (n / (n + self._counts).clamp(min=1))[:, None]
        self._counts = self._counts + n

    @property
    def n(self) -> int:
        """How many rows there were."""
        return int(self._counts.sum())

    @property
    def answers(self) -> int:
        """How many answers came at least twice."""
        return int((self._counts >= 2).sum())

    def value(self) -> float:
        """LiDAR of all rows so far.

        Raises:
            CannotMeasureError: if fewer than two answers came twice.
        """
        twice = self._counts >= 2
        if self.answers < 2:
            raise CannotMeasureError(
                "LiDAR tells answers apart: give sequences in which two answers or more come at least twice"
            )
        counts, means = self._counts[twice], self._means[twice]
        share = counts / counts.sum()
        apart = means - share @ means
        within = self._within / counts.sum() + self.delta * torch.eye(means.shape[1], dtype=torch.float64)
        between = (apart * share[:, None]).T @ apart
        values, vectors = torch.linalg.eigh(within)
        whiten = vectors @ values.rsqrt().diag() @ vectors.T
        return shannon_rank(torch.linalg.eigvalsh(whiten @ between @ whiten).clamp(min=0))


def measure(
    model: AnyHooked | AnyModel, subject: Subject, batches: Iterable[Batch], *, delta: float = DELTA, **where: Any
) -> Measurement:
    """LiDAR over the answers of all sequences at every residual point, before the final norm: dim `layer`.

    Args:
        model, subject, batches, where: as for `over_sequences` (`points`, `at`, `shuffled`).
        delta: δ, what is added to the diagonal of Σ_w.

    Raises:
        ValueError: if fewer than two answers come twice, or as `over_sequences` does.
    """
    streams = over_sequences(lambda: _LidarStream(delta), model, subject, batches, **where)
    first = next(iter(streams.values()))
    return Measurement(
        name="LiDAR of shuffled answers" if where.get("shuffled") else "LiDAR",
        values=np.array([stream.value() for stream in streams.values()]),
        dims=("layer",),
        coords={"layer": list(streams)},
        units="directions",
        settings={
            "model": subject.name,
            "delta": delta,
            "epsilon": EPSILON,
            **where_settings(where),
            "answers": first.answers,
            "together": True,
        },
        n=np.array([stream.n for stream in streams.values()]),
        caption=f"Effective number of directions in which {first.answers:,} answers lie apart, in units of the spread "
        "among questions with one answer; before the final norm. It does not say that the model reads them.",
    )
