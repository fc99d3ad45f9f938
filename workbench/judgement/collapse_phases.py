"""The three phases of representation collapse, looked for over a run's checkpoints (Li et al., 2025, arXiv 2509.23024).

In the pretraining of language models the paper sees RankMe of the last layer fall ("warmup": collapse), rise
("entropy-seeking") and fall again ("compression-seeking"), and the exponent of α-ReQ move the other way. Only what the
paper says of itself in its abstract and on its project page was at hand: it states the pattern without a threshold, so
the one here is ours. Two nulls: how far two independent draws of sequences lie apart, and how often a curve with the
same changes between checkpoints, in any order and with any sign, has three phases as strong. Does not show: that the
phases have to do with memorising or generalising, as the paper finds of language models; that another seed has them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from workbench.measurement import Measurement
from workbench.util.seeds import generator

RANDOM_CURVES = 2000
RARE = 0.05  # share of random curves from which three phases are no more than chance


@dataclass(frozen=True)
class Phases:
    """Three phases of a curve over training: a fall up to `low`, a rise up to `high`, a fall up to the end.

    Attributes:
        found: whether they are beyond both nulls.
        low, high: the steps between the phases, placed so that the least of the three changes is largest.
        changes: of the logarithm of RankMe in each phase: negative, positive, negative where there are three phases.
        apart: how far two draws of sequences lie apart at most, in the same units.
        random: the share of random curves whose three phases are as strong.
        alpha: the exponent of α-ReQ at the start, `low`, `high` and the end.
        steps: how many checkpoints there are.
    """

    found: bool
    low: int
    high: int
    changes: tuple[float, float, float]
    apart: float
    random: float
    alpha: tuple[float, ...]
    steps: int

    @property
    def alpha_agrees(self) -> bool:
        """Whether α-ReQ moves the other way in all three phases."""
        return bool(((np.diff(self.alpha) > 0) == (np.array(self.changes) < 0)).all())


def phases(measured: Measurement) -> Phases:
    """The three phases that a run's RankMe comes nearest to, and whether they are beyond both nulls.

    Args:
        measured: `rank_over_training(…)`.

    Raises:
        ValueError: if there are fewer than four checkpoints.
    """
    steps = [int(step) for step in measured.coords["step"]]
    if len(steps) < 4:
        raise ValueError(f"three phases need four checkpoints or more, with the end; there are {len(steps)}")
    draws = np.log(measured.select(measure="RankMe").values)
    curve, alpha = draws.mean(0), measured.select(measure="α-ReQ").values.mean(0)
    low, high, strength = _strongest(curve)
    apart = float((draws.max(0) - draws.min(0)).max())
    random = _share_of_random(curve, strength)
    changes = (curve[low] - curve[0], curve[high] - curve[low], curve[-1] - curve[high])
    return Phases(
        found=strength > apart and random <= RARE,
        low=steps[low],
        high=steps[high],
        changes=(float(changes[0]), float(changes[1]), float(changes[2])),
        apart=apart,
        random=random,
        alpha=tuple(float(alpha[at]) for at in (0, low, high, -1)),
        steps=len(steps),
    )


def _strongest(curve: Float[np.ndarray, " step"]) -> tuple[int, int, float]:
    """Where a fall, a rise and a fall meet so that the least of the three is largest, and that least change.

    It is negative, or 0, where a curve does not fall, rise and fall.
    """
    n = len(curve)
    fall = curve[0] - curve
    rise = curve[None] - curve[:, None]
    again = curve - curve[-1]
    least = np.minimum(np.minimum(fall[:, None], rise), again[None])
    allowed = np.triu(np.ones((n, n), dtype=bool), 1)
    allowed[0], allowed[:, -1] = False, False
    low, high = np.unravel_index(int(np.where(allowed, least, -np.inf).argmax()), least.shape)
    return int(low), int(high), float(least[low, high])


def _share_of_random(curve: Float[np.ndarray, " step"], strength: float) -> float:
    """The share of curves with the same changes, in any order and with any sign, whose phases are as strong.

    Always drawn by the same seed. The curve itself is counted with them, so that it is never 0.
    """
    changes, draws = np.diff(curve), generator(0, "phases")
    strong = 1
    for _ in range(RANDOM_CURVES):
        order = torch.randperm(len(changes), generator=draws).numpy()
        signs = 2 * torch.randint(0, 2, (len(changes),), generator=draws).numpy() - 1
        other = np.concatenate([[0.0], (changes[order] * signs).cumsum()])
        strong += _strongest(other)[2] >= strength
    return strong / (RANDOM_CURVES + 1)
