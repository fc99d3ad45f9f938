"""Is a circuit faithful? Whether what it keeps of the metric is what the whole model has: neither less nor more.

A circuit that leaves out what works against the answer (an MLP that clips, a head that inhibits) keeps more than the
model has, and is as little the model as one that keeps less. So a circuit is faithful where the whole interval of its
faithfulness lies within `LEAST` … `MOST`; the result says on which side it is not, or that the interval decides
nothing.

How many pairs: an interval over pairs knows only pairs that it has seen. A circuit that loses every tenth pair
altogether, and keeps all of the others, has a faithfulness of .9; n pairs miss all of the lost ones with probability
.9ⁿ, which is at most .05 from n = 29 on. With fewer pairs no circuit is called faithful; that one is not can be said
from `FEWEST` on, where intervals cover as often as they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

import numpy as np

from workbench.judgement.against_controls import Stored
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT, graded

LEAST, MOST = 0.9, 1.1  # of the metric, by a faithful circuit
FEWEST = LEAST_FOR_A_VERDICT  # test pairs, below which nothing is said
ENOUGH = 29  # test pairs, below which no circuit is called faithful


class Faithful(StrEnum):
    """Whether a circuit does what the whole model does."""

    FAITHFUL = "faithful"
    NOT = "not faithful"  # the whole interval lies below
    OVERSHOOTS = "overshoots"  # the whole interval lies above
    NOT_SETTLED = "not settled"  # the interval reaches over a bound
    TOO_FEW = "too few pairs"
    NO_ANSWERS = "nothing to keep"  # the whole model does not have the answers that a circuit could keep


class Faithfulness(Stored):
    """How much of the metric a circuit keeps by itself, on test pairs, and what came of it.

    Attributes:
        edges: of the circuit.
        kept, low, high: the share of the metric with its 95 % interval, which is NaN where all pairs are alike.
        n: test pairs.
        known: in how many of them the whole model has both answers of the pair right.
        answers: in how many the circuit alone gives the whole model's answer; None where that was not asked.
        result: what came of it.
    """

    edges: int
    kept: float
    low: float
    high: float
    n: int
    known: int
    answers: int | None = None
    result: Faithful


class Agreement(Stored):
    """How far circuits that are found on two halves of the pairs agree: the edges that both have, of those of either.

    Attributes:
        overlap, low, high: its mean over halvings, and what holds 95 % of them.
        chance: the mean overlap of circuits that are grown in the same way from random scores.
        splits, draws: halvings, and pairs of random scores.
    """

    overlap: float
    low: float
    high: float
    chance: float
    splits: int
    draws: int


class CircuitJudgement(Stored):
    """What may be said of a circuit that was found.

    Attributes:
        metric: what is kept, in words.
        n_edges: of the model.
        drawn: the circuit itself.
        left: what is kept of the metric by all other edges, with its interval.
        shares, sizes: circuits found in the same way by their share of all edges, increasing.
        halves: whether other pairs give the same edges.
    """

    metric: str
    n_edges: int
    drawn: Faithfulness
    left: tuple[float, float, float]
    shares: tuple[float, ...]
    sizes: tuple[Faithfulness, ...]
    halves: Agreement

    @property
    def smallest(self) -> float | None:
        """The smallest share of all edges from which on circuits are faithful; None where none is."""
        at = first_faithful(self.sizes)
        return None if at is None else self.shares[at]


def judge_faithful(edges: int, mean: Measurement, known: int, answers: int | None = None) -> Faithfulness:
    """Judge a circuit by its mean faithfulness over pairs.

    Args:
        edges: of the circuit.
        mean: the share of the metric that it keeps, without dims, with its interval and the n behind it.
        known, answers: as in `Faithfulness`.
    """
    assert mean.low is not None and mean.high is not None and mean.n is not None
    kept, low, high = (float(array) for array in (mean.values, mean.low, mean.high))
    n = int(mean.n)
    least, most = (kept, kept) if np.isnan(low) else (low, high)  # all pairs alike
    knows = _knows(known, n)
    if n < FEWEST or knows is None:
        result = Faithful.TOO_FEW
    elif not knows:
        result = Faithful.NO_ANSWERS
    elif most < LEAST or least > MOST:
        result = Faithful.NOT if most < LEAST else Faithful.OVERSHOOTS
    elif least < LEAST or most > MOST:
        result = Faithful.NOT_SETTLED
    else:
        result = Faithful.FAITHFUL if n >= ENOUGH else Faithful.TOO_FEW
    return Faithfulness(edges=edges, kept=kept, low=low, high=high, n=n, known=known, answers=answers, result=result)


@lru_cache(maxsize=256)
def _knows(known: int, n: int) -> bool | None:
    """Whether the model has both answers of a pair right more often than not; None where too few pairs tell."""
    low = float(graded(np.repeat([1.0, 0.0], [known, n - known]))[0])
    if low > 0.5:
        return True
    return None if n < ENOUGH and 2 * known > n else False


def first_faithful(sizes: Sequence[Faithfulness]) -> int | None:
    """Of circuits of increasing size, the number of the first that is faithful as are all after it; None without."""
    wrong = [at for at, circuit in enumerate(sizes) if circuit.result is not Faithful.FAITHFUL]
    first = wrong[-1] + 1 if wrong else 0
    return first if first < len(sizes) else None
