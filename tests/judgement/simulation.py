"""How often the one rule takes a further uninformed model for an informed one, and how often it sees a real effect.

`python -m tests.judgement.simulation --write` (or `make coverage`) puts the table into docs/concepts/controls.md.

Null models are drawn `DRAWS` times for each shape of their rates and each size of their counts. For each draw the rule
has a smallest count that is beyond; how often a further null model, or a model of a given rate, reaches it is worked
out, not drawn. Beside it is the rule that was there before (`formerly`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Float, Int
from scipy import stats
from scipy.special import betaln

from tests.tables_in_docs import main
from workbench.judgement import against_controls as rule

NAME = "rule"  # of the table in the docs
DRAWS = 8000
COUNTS = ((2, 6), (8, 3), (4, 12), (5, 64), (8, 64), (8, 256))  # null models × answers of each
OWN = (64, 256)  # answers of the model that is judged
PLACES = (1, 3, 7)
AT_ONCE = 500  # draws whose weights on the grid are held together
STEPS = 4000  # quantiles of a shape over which a further model's count is averaged

Quantiles = Callable[[np.ndarray], np.ndarray]
Least = Int[np.ndarray, " draw"]
"""Of each draw of null models, the smallest count of the judged model that is beyond them; n + 1 where none is."""

SHAPES: dict[str, Quantiles] = {
    "point, .3": lambda u: np.full_like(u, 0.3),
    "normal, .3 ± .1": stats.norm(0.3, 0.1).ppf,
    "normal, .5 ± .05": stats.norm(0.5, 0.05).ppf,
    "beta (2, 5)": stats.beta(2, 5).ppf,
    "beta (½, 2)": stats.beta(0.5, 2).ppf,
    "exponential, .15": stats.expon(scale=0.15).ppf,
    "exponential, .05": stats.expon(scale=0.05).ppf,
    "two modes, .05 or .6": lambda u: np.where(u < 0.5, 0.05, 0.6),
}
REAL = {"point, .3": 0.85, "normal, .3 ± .1": 0.85, "exponential, .15": 0.5}
"""Shape of the null models -> the rate of a model that is another than they, whose counts should be beyond."""


def rates(shape: str, u: np.ndarray) -> np.ndarray:
    """Rates of null models at these quantiles; what would be outside of 0 … 1 is at the end."""
    return np.clip(SHAPES[shape](u), 0, 1)


@cache
def nulls(shape: str, models: int, n: int, draws: int = DRAWS) -> tuple[Int[np.ndarray, "draw model"], np.ndarray]:
    """Different draws of null models' counts, in order, and how often each was drawn."""
    generator = np.random.default_rng([list(SHAPES).index(shape), models, n])
    drawn = generator.binomial(n, rates(shape, generator.random((draws, models))))
    return np.unique(np.sort(drawn), axis=0, return_counts=True)


def p_values(hits: Int[np.ndarray, "draw model"], n: int, own: int) -> Float[np.ndarray, "draw hits"]:
    """`against_controls.compare_counts`'s p of every count 0 … own, for each draw of null models."""
    a, b = rule._grid()
    seen = np.arange(n + 1)[:, None]
    log_likelihood = betaln(a + seen, b + n - seen) - betaln(a, b)
    tails = rule._at_least(own).T
    found = []
    for part in np.split(hits, range(AT_ONCE, len(hits), AT_ONCE)):
        logs = sum(log_likelihood[model] for model in part.T)
        weights = np.exp(logs - logs.max(1, keepdims=True))
        found.append(weights @ tails / weights.sum(1, keepdims=True))
    return np.concatenate(found)


@cache
def least(shape: str, models: int, n: int, own: int, draws: int = DRAWS) -> dict[int, Least]:
    """By the rule, for each number of places; nothing is beyond too few null answers or models."""
    if models < rule.FEWEST_NULLS or models * n < rule.FEWEST_OF_NULLS:
        return dict.fromkeys(PLACES, np.full(len(nulls(shape, models, n, draws)[0]), own + 1))
    hits = nulls(shape, models, n, draws)[0]
    p = p_values(hits, n, own)
    # No more is said of what a null model reaches by enough tries, or all of them pooled, whatever p says.
    rate = np.maximum(hits.sum(1) / (models * n), hits.max(1) / n if n >= rule.FEWEST else 0)
    above = np.floor(rate * own + 1e-9).astype(int) + 1
    return {places: np.maximum((p > rule.ALPHA / places).sum(1), above) for places in PLACES}


def formerly(shape: str, models: int, n: int, own: int, draws: int = DRAWS) -> dict[int, Least]:
    """By the rule before: the low end of the model's own interval above the limit of the null models.

    The limit was the upper end of a t prediction interval over the models with at least 5 answers, or the largest of
    them, or the upper end of Jeffreys's interval of all answers together, whichever is highest.
    """
    hits = nulls(shape, models, n, draws)[0]
    k = np.arange(own + 1)
    low = stats.beta.ppf(0.025, k + 0.5, own - k + 0.5)
    together = stats.beta.ppf(0.975, hits.sum(1) + 0.5, models * n - hits.sum(1) + 0.5)
    found = {}
    for places in PLACES:
        limit, rate = together, hits / n
        if n >= 5:
            t = stats.t.ppf(1 - rule.ALPHA / places, models - 1)
            predicted = rate.mean(1) + t * rate.std(1, ddof=1) * np.sqrt(1 + 1 / models)
            limit = np.max([together, rate.max(1), predicted], axis=0)
        found[places] = np.searchsorted(low, limit, side="right")
    return found


@dataclass(frozen=True)
class Share:
    """A share of cases, and its standard error over draws of null models."""

    value: float
    error: float

    @classmethod
    def reached(cls, least: Least, often: np.ndarray, counts: Float[np.ndarray, " hits"]) -> Share:
        """How often a model with this distribution of counts reaches the least, over draws so often drawn."""
        at_least = np.append(counts[::-1].cumsum()[::-1], 0)[least]
        mean = np.average(at_least, weights=often)
        return cls(mean, (np.average((at_least - mean) ** 2, weights=often) / often.sum()) ** 0.5)

    def at_any(self, places: int) -> Share:
        """The same at any of so many places that have nothing to do with each other."""
        missed = 1 - self.value
        return Share(1 - missed**places, places * missed ** (places - 1) * self.error)


def false_alarms(shape: str, models: int, n: int, own: int, how: Callable = least, draws: int = DRAWS) -> list[Share]:
    """How often a further null model is beyond at any of 1, 3 and 7 places."""
    u = (np.arange(STEPS) + 0.5) / STEPS
    counts = stats.binom.pmf(np.arange(own + 1)[:, None], own, rates(shape, u)).mean(1)
    often = nulls(shape, models, n, draws)[1]
    beyond = how(shape, models, n, own, draws)
    return [Share.reached(beyond[places], often, counts).at_any(places) for places in PLACES]


def power(shape: str, models: int, n: int, own: int, how: Callable = least, draws: int = DRAWS) -> list[Share]:
    """How often a model of another rate (`REAL`) is beyond at one of 1, 3 and 7 places."""
    counts = stats.binom.pmf(np.arange(own + 1), own, REAL[shape])
    often, beyond = nulls(shape, models, n, draws)[1], how(shape, models, n, own, draws)
    return [Share.reached(beyond[places], often, counts) for places in PLACES]


def rows() -> dict[str, list[list[Share]]]:
    """Each row's name -> by counts: the rule's shares at 1, 3, 7 places, then those of the rule before."""
    asked = [(f"{shape}", false_alarms, shape) for shape in SHAPES]
    asked += [(f"**{rate:g}** against {shape}".replace("0.", "."), power, shape) for shape, rate in REAL.items()]
    return {
        f"{name} | {own}": [ask(shape, *counts, own) + ask(shape, *counts, own, formerly) for counts in COUNTS]
        for name, ask, shape in asked
        for own in OWN
    }


def table() -> str:
    """Every row in Markdown, percent; and how exact it is."""
    heads = ["rates of null models", "n", *(f"{models} × {n}" for models, n in COUNTS)]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    found = rows()
    for name, cells in found.items():
        lines.append(f"| {name} | {' | '.join(map(cell, cells))} |")
    alarms = [cells for name, cells in found.items() if "against" not in name]
    errors = [100 * max(shares[i].error for cells in alarms for shares in cells) for i in range(len(PLACES))]
    lines += ["", f"{DRAWS:,} draws of null models a cell: the standard error of a false alarm's share is at most "]
    lines[-1] += (
        f"{', '.join(f'{error:.2f}' for error in errors[:-1])} and {errors[-1]:.2f} points at 1, 3 and 7 places."
    )
    return "\n".join(lines) + "\n"


def cell(shares: list[Share]) -> str:
    """The rule's shares, and below in italics those of the rule before."""
    words = [f"{100 * share.value:.1f}" if share.value < 0.0995 else f"{100 * share.value:.0f}" for share in shares]
    return f"{' / '.join(words[:3])}<br>*{' / '.join(words[3:])}*"


if __name__ == "__main__":
    main(NAME, __doc__, table)
