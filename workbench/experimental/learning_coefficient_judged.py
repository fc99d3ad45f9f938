"""Whether an estimate of the local learning coefficient is to be trusted: what was drawn, repeated, and speaks against.

An estimate that is right does not depend on how it was drawn. Too large a step makes the draws hotter than they should
be, too small a one (or too few draws) leaves them where they began, and too strong a localisation holds them there. So
the estimate is repeated with `FACTOR` times the step, which also makes the chains as much longer, and with as much more
localisation. At a quadratic minimum each then moves by about three times what it is off: `MOST_MOVED` allows 8 %.

Promoted into `judgement`, or removed, with `learning_coefficient`, whose estimates it judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from jaxtyping import Float

from workbench.judgement.rule import Stored

FACTOR = 4.0  # of the step, and of the localisation, with which an estimate is repeated
MOST_MOVED = 0.2  # of an estimate, by which a repeated one may lie elsewhere
LARGEST_SPREAD = 0.3  # of the chains' means over their mean
LOWER, OFTEN = 0.05, 0.01  # of the mean excess loss, by which so many draws may lie below the minimum


class Doubt(StrEnum):
    """What speaks against an estimate."""

    LEFT = "a chain left for infinity"
    NO_MINIMUM = "draws have lower loss than the minimum given"
    APART = "chains disagree"
    DRIFTS = "the loss drifts from the first half of the draws to the second"
    STEP = "the estimate moves with the step"
    LOCALISATION = "the estimate moves with the localisation"


class Drawn(Stored):
    """An estimate λ̂ with what it was drawn with.

    Attributes:
        step_size, localisation: ε of the dynamics and γ, which holds draws near the minimum.
        value: the mean over chains; NaN where one left for infinity.
    """

    step_size: float
    localisation: float
    value: float

    @classmethod
    def of(cls, step_size: float, localisation: float, value: float) -> Drawn:
        """The estimate of these settings; of chains that left for infinity NaN."""
        return cls(step_size=step_size, localisation=localisation, value=value if np.isfinite(value) else np.nan)


class LearningCoefficient(Drawn):
    """An estimate with what speaks against it.

    Attributes:
        spread: the standard deviation of the chains' means.
        chains: λ̂ of each chain.
        repeated: the same with another step, and with another localisation.
        doubts: why it is not to be trusted; empty where nothing was found.
        n, draws, burn_in: examples behind the loss, and steps of each chain that are averaged and that go before.
    """

    spread: float
    chains: tuple[float, ...]
    repeated: tuple[Drawn, ...]
    doubts: tuple[Doubt, ...]
    n: int
    draws: int
    burn_in: int

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.doubts

    def moved(self, other: Drawn) -> float:
        """How far a repeated estimate lies from this one, as a share of it; infinite where a chain left."""
        share = abs(other.value - self.value) / abs(self.value) if self.value else np.inf
        return float(np.inf if np.isnan(share) else share)


def judge(
    excess: Float[np.ndarray, "chain draw"],
    means: Float[np.ndarray, " chain"],
    drawn: Drawn,
    repeated: Sequence[Drawn],
    **how: int,
) -> LearningCoefficient:
    """Judge an estimate by its draws and by the same drawn otherwise.

    Args:
        excess: the loss at every draw less that at the minimum.
        means: λ̂ of each chain.
        drawn: the estimate.
        repeated: with another step, and with another localisation.
        how: `n`, `draws` and `burn_in`.
    """
    spread = float(means.std(ddof=1))
    found = LearningCoefficient(
        **dict(drawn), spread=spread, chains=tuple(means.tolist()), repeated=tuple(repeated), doubts=(), **how
    )
    doubts = _of_draws(excess, drawn.value, spread)
    if Doubt.LEFT not in doubts:
        moved = [one for one in repeated if found.moved(one) > MOST_MOVED]
        doubts += [Doubt.STEP for one in moved if one.step_size != drawn.step_size]
        doubts += [Doubt.LOCALISATION for one in moved if one.localisation != drawn.localisation]
    return found.model_copy(update={"doubts": tuple(doubts)})


def _of_draws(excess: Float[np.ndarray, "chain draw"], value: float, spread: float) -> list[Doubt]:
    """What the draws themselves say against an estimate."""
    if not np.isfinite(excess).all():
        return [Doubt.LEFT]
    mean, doubts = float(excess.mean()), []
    if value <= 0 or float((excess < -LOWER * abs(mean)).mean()) > OFTEN:
        doubts.append(Doubt.NO_MINIMUM)
    if spread > LARGEST_SPREAD * abs(value):
        doubts.append(Doubt.APART)
    first, second = (half.mean() for half in np.array_split(excess, 2, axis=1))
    if abs(float(second - first)) > LARGEST_SPREAD * abs(mean):
        doubts.append(Doubt.DRIFTS)
    return doubts
