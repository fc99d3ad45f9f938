"""The one rule: is a result more than one further uninformed model would hardly give?

Results are counts, hits of n: answers that an edit changed, examples in which a claim holds. Uninformed models differ,
so their counts are not those of one coin: each model has a rate of its own, drawn from a beta distribution with mean μ
and intraclass correlation ρ, and its hits are binomial (the beta-binomial of Williams 1975). Neither is known: μ has
Jeffreys's prior, and ρ a beta distribution, `CORRELATION`. All counts together weigh them, so that ten answers of a
null model count for less than a hundred, and five models that differ widely for less than five that agree.
What is asked is the probability p
that one further such model has as many hits as were seen, of as many tries; of several places each has its share of
`ALPHA` (Bonferroni).

A control that is no model, such as shuffled labels, has one rate and no models to differ: its own count, with
Jeffreys's prior, predicts a further count.

How often a further uninformed model is wrongly taken for an informed one, and how often a real effect is seen, is
tabled in `docs/concepts/controls.md` by simulation (`make coverage`). Of the priors of ρ that were tried there
(uniform; level up to a point, then nothing or falling; beta of 1 and 1.5, 1 and 2, 1 and 3, 2 and 1, 2 and 2, ½ and ½,
½ and 1, ½ and 2, 1.25 and 2.25) this one keeps to `ALPHA` for every shape of nulls, and sees about as much as any that
does. A uniform one sees less from few answers. The density 2 (1 − ρ) sees more, and errs in up to 7 % at 7 places.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict, Field
from scipy.special import betaincinv, betaln, gammaln

ALPHA = 0.05  # that an uninformed model is beyond such models at any of the places looked at
FEWEST = 5  # tries of the result itself, below which nothing is said
FEWEST_OF_NULLS, FEWEST_NULLS = 10, 3  # tries of all null models together, and models that had any
MOST = 512  # tries of the result that count: more would tell little more, and take memory
MEANS, CORRELATIONS = 120, 40  # points of the grid over μ and ρ: with four times as many nothing changes
CORRELATION = (1.2, 2.0)  # the parameters of the beta distribution that is ρ's prior


class Tally(NamedTuple):
    """Hits of n tries. Hits may be a fraction where tries are shares, such as of the cases of one example."""

    hits: float
    n: int

    @property
    def rate(self) -> float:
        return self.hits / self.n if self.n else float("nan")


class Against(StrEnum):
    """How a result compares with what it is held against.

    No more: one of the models, by `FEWEST` tries or more, all of them pooled, or the control, reach as high a rate. Not
    clearly more: none does, but a further one may. Too few: the counts are too small for either to be said.
    """

    BEYOND = "beyond"
    NO_MORE = "no more"
    NOT_CLEAR = "not clearly more"
    TOO_FEW = "too few to compare"


WORST_FIRST = (Against.NO_MORE, Against.NOT_CLEAR, Against.TOO_FEW, Against.BEYOND)


class Stored(BaseModel):
    """A part of a judgement: frozen, strict, and JSON with NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")


class Compared(Stored):
    """A result held against uninformed models, or a control.

    Attributes:
        against: the name of the models or the control.
        hits, n: of them together.
        models: how many models these are; None where it is no model.
        most: the highest rate of a single one; NaN where none had a try.
        p: that a further one has as many hits as the result.
        result: what came of it.
    """

    against: str
    hits: float = Field(ge=0, allow_inf_nan=False)
    n: int = Field(ge=0, le=2**53)
    models: int | None
    most: float
    p: float
    result: Against

    @property
    def rate(self) -> float:
        """The rate of all of them pooled; NaN without a try."""
        return self.hits / self.n if self.n else float("nan")


def compare_counts(
    own: Tally,
    nulls: Sequence[Tally],
    against: str,
    *,
    models: bool = True,
    places: int = 1,
    searched: Sequence[Tally] | None = None,
) -> Compared:
    """Hold a count against those of uninformed models, or against that of one control.

    Args:
        own: the count that is judged.
        nulls: of each null model; of a control that is no model, its one count.
        against: what to call them.
        models: whether they are models, which differ from each other.
        places: at how many places (points, hops) the same is asked.
        searched: of null models whose places are alike, each where it is most like an informed one: p is held against
            these, and needs no further correction; the counts told stay those of this place.

    Raises:
        ValueError: if a control that is no model has several counts.
    """
    if not models and len(nulls) != 1:
        raise ValueError(f"a control that is no model has one count, not {len(nulls)}")
    tried = [null for null in nulls if null.n]
    hits, n = sum(null.hits for null in tried), sum(null.n for null in tried)
    p = _p(own, tried if searched is None else [null for null in searched if null.n], models)
    most = max((null.rate for null in tried), default=float("nan"))
    reached = max([hits / n if n else 0.0, *(null.rate for null in tried if null.n >= FEWEST)])
    result = Against.BEYOND if p <= ALPHA / (places if searched is None else 1) else Against.NOT_CLEAR
    if own.n < FEWEST or n < (FEWEST_OF_NULLS if models else FEWEST) or (models and len(tried) < FEWEST_NULLS):
        result = Against.TOO_FEW
    elif own.rate <= reached:
        result = Against.NO_MORE  # whatever p says: one of them does as much
    count = len(nulls) if models else None
    return Compared(against=against, hits=hits, n=n, models=count, most=most, p=p, result=result)


def _p(own: Tally, tried: Sequence[Tally], models: bool) -> float:
    """The probability that a further null has as many hits as the result, of as many tries."""
    if not own.n:
        return float("nan")
    n = min(own.n, MOST)
    hits = int(np.floor(own.rate * n + 1e-9))
    if not models:
        seen, of = tried[0] if tried else (0.0, 0)
        return float(_tail(n, np.array([seen + 0.5]), np.array([of - seen + 0.5]))[hits, 0])
    a, b = _grid()
    # Shares between 0 and 1 vary less than coins do: to count them as coins errs on the careful side.
    logs = sum((betaln(a + null.hits, b + null.n - null.hits) - betaln(a, b) for null in tried), np.zeros_like(a))
    weights = np.exp(logs - logs.max())
    return float(weights @ _at_least(n)[hits] / weights.sum())


@lru_cache(maxsize=1)
def _grid() -> tuple[Float[np.ndarray, " point"], Float[np.ndarray, " point"]]:
    """The beta distributions that null models' rates may come from: points equally likely by the prior."""
    mean = np.sin(np.pi / 2 * (np.arange(MEANS) + 0.5) / MEANS) ** 2  # quantiles of Jeffreys's Beta(½, ½)
    correlation = betaincinv(*CORRELATION, (np.arange(CORRELATIONS) + 0.5) / CORRELATIONS)
    total = 1 / correlation - 1  # a + b of a beta distribution with this intraclass correlation
    return np.outer(mean, total).ravel(), np.outer(1 - mean, total).ravel()


@lru_cache(maxsize=16)
def _at_least(n: int) -> Float[np.ndarray, "hits point"]:
    """P(at least k hits of n) for k = 0 … n at every point of the grid."""
    return _tail(n, *_grid())


def _tail(n: int, a: Float[np.ndarray, " point"], b: Float[np.ndarray, " point"]) -> Float[np.ndarray, "hits point"]:
    """P(at least k hits of n) for k = 0 … n under beta-binomials."""
    k = np.arange(n + 1)[:, None]
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    each = np.exp(ways + betaln(k + a, n - k + b) - betaln(a, b))
    return np.cumsum(each[::-1], axis=0)[::-1]
