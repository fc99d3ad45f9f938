"""How often each kind of interval holds the truth, by simulation: the table in docs/concepts/controls.md.

`python -m tests.measurement.coverage --write` (or `make coverage`) makes it anew in two minutes; the slow tests hold
the same numbers against what is promised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from tests.tables_in_docs import main
from workbench.measurement import intervals as statistics
from workbench.measurement.draws import limit
from workbench.measurement.measurement import interval

NAME = "coverage"  # of the table in the docs
SIZES = (2, 3, 5, 8, 10, 30, 64, 256)
ROWS = 4000  # samples of each kind: two standard errors are 0.7 points
PROMISED = (0.93, 0.97)
SLACK = 0.007

Truth = float | np.ndarray
Drawn = tuple[statistics.Interval, Truth]
Values = Callable[[np.random.Generator, int], tuple[np.ndarray, Truth]]


@dataclass(frozen=True)
class Kind:
    """A kind of figure: what it is of, how a sample and its interval are made, and where more or less is expected.

    Attributes:
        draw: (generator, n) -> the intervals of `ROWS` samples of size n, and the truth of each.
        wider: why it covers more than 97 %, where it does.
        short: why it covers less than 93 % from n = 5 on, where no interval known covers more.
    """

    draw: Callable[[np.random.Generator, int], Drawn]
    wider: str = ""
    short: str = ""


def of(units: str, values: Values, wider: str = "", short: str = "", *, over_seeds: bool = False) -> Kind:
    """The interval that a measurement of these units has over examples, or over seeds."""

    def draw(generator: np.random.Generator, n: int) -> Drawn:
        found, truth = values(generator, n)
        return interval(found, units, seeds=over_seeds), truth

    return Kind(draw, wider, short)


def two(units: str, values: Values, other: Values, how: Callable[..., statistics.Interval]) -> Kind:
    """The interval of a difference of two independent samples of size n."""

    def draw(generator: np.random.Generator, n: int) -> Drawn:
        (first, one), (second, another) = values(generator, n), other(generator, n)
        return how(first, second, units), another - one

    return Kind(
        draw,
        wider=FEW_STEPS + ", and room for what is rare" if units == "share" else "put together from the ends of two",
    )


def apart(first: np.ndarray, second: np.ndarray, units: str, *, seeds: bool = False) -> statistics.Interval:
    ends = [interval(values, units, seeds=seeds) for values in (first, second)]
    return statistics.apart(ends[0], ends[1], (first.mean(-1), second.mean(-1)))


def welch(first: np.ndarray, second: np.ndarray, units: str) -> statistics.Interval:
    return statistics.welch(first, second)


def yes(draw: np.random.Generator, n: int, share: float | None = None) -> tuple[np.ndarray, Truth]:
    """Yes or no; by default each sample with a true share of its own, all equally likely."""
    truth = draw.random(ROWS) if share is None else np.full(ROWS, share)
    return (draw.random((ROWS, n)) < truth[:, None]).astype(float), truth


def beta(draw: np.random.Generator, n: int, a: float, b: float) -> tuple[np.ndarray, Truth]:
    return draw.beta(a, b, (ROWS, n)), a / (a + b)


def in_part(draw: np.random.Generator, n: int, share: float) -> tuple[np.ndarray, Truth]:
    """Ten answers a sequence."""
    return draw.binomial(10, share, (ROWS, n)) / 10, share


def nearly_all_one(draw: np.random.Generator, n: int) -> tuple[np.ndarray, Truth]:
    return np.where(draw.random((ROWS, n)) < 0.9, 1.0, draw.random((ROWS, n))), 0.95


def moved(draw: np.random.Generator, n: int, up: float | None = None, down: float = 0.0) -> tuple[np.ndarray, Truth]:
    """Right in one of two models alone; by default each sample with chances of its own, all equally likely."""
    chances = draw.dirichlet([1, 1, 1], ROWS) if up is None else np.tile([up, down, 1 - up - down], (ROWS, 1))
    at = draw.random((ROWS, n))
    better, worse = at < chances[:, :1], at > 1 - chances[:, 1:2]
    return better.astype(float) - worse, chances[:, 0] - chances[:, 1]


def less(draw: np.random.Generator, n: int, first: Values, second: Values) -> tuple[np.ndarray, Truth]:
    """A difference of two shares that go together by chance alone."""
    (one, a), (other, b) = first(draw, n), second(draw, n)
    return other - one, b - a


def made(draw: np.random.Generator, n: int, how: str) -> tuple[np.ndarray, Truth]:
    size = (ROWS, n)
    return {
        "normal": lambda: (draw.normal(size=size), 0.0),
        "uniform": lambda: (draw.random(size), 0.5),
        "skewed": lambda: (draw.gamma(4, size=size), 4.0),
        "exponential": lambda: (draw.exponential(size=size), 1.0),
        "lognormal": lambda: (np.exp(draw.normal(size=size)), np.exp(0.5)),
        "heavy tails": lambda: (draw.standard_t(3, size), 0.0),
        "wider": lambda: (draw.normal(1, 3, size), 1.0),
    }[how]()


def seeds(draw: np.random.Generator, n: int, solved: float, spread: float, examples: int) -> tuple[np.ndarray, Truth]:
    """Seeds that solve the task (97 % right) or not (30 %), or that all are about 90 %; each measured on examples."""
    solves = draw.random((ROWS, n)) < solved
    truth = np.where(solves, 0.97, 0.3) if solved < 1 else np.full((ROWS, n), 0.9)
    own = np.clip(truth + draw.uniform(-spread, spread, (ROWS, n)), 0, 1)
    return draw.binomial(examples, own) / examples, 0.9 if solved == 1 else 0.97 * solved + 0.3 * (1 - solved)


def solve(draw: np.random.Generator, n: int, solved: float) -> tuple[np.ndarray, Truth]:
    """Seeds that solve the task (99 % right) or not (20 %), each within about half a percent of that."""
    own = np.where(draw.random((ROWS, n)) < solved, 0.99, 0.2) + draw.normal(0, 0.005, (ROWS, n))
    return own.clip(0, 1), 0.99 * solved + 0.2 * (1 - solved)


def alike(draw: np.random.Generator, n: int, mean: float, spread: float) -> tuple[np.ndarray, Truth]:
    """Seeds of one kind, normal about their mean."""
    return draw.normal(mean, spread, (ROWS, n)).clip(0, 1), mean


def reached(draw: np.random.Generator, n: int, solved: float) -> Drawn:
    """The exact interval of the share of seeds that reach a value."""
    hits = draw.binomial(n, solved, ROWS)
    ends = np.array([statistics.exact(k, n) for k in range(n + 1)])
    return (ends[hits, 0], ends[hits, 1]), solved


def redrawn(draw: np.random.Generator, n: int, share: float, examples: int) -> Drawn:
    each = draw.binomial(examples, share, (ROWS, n)) / examples
    return statistics.redrawn(each, np.full(each.shape, examples)), share


def within_limit(draw: np.random.Generator, n: int, rates: Callable[..., np.ndarray], places: int) -> Drawn:
    """Whether a further null model lies below the limit from n of them, at all of some places."""
    each, further = rates(draw, (ROWS, places, n)), rates(draw, (ROWS, places))
    limits = np.apply_along_axis(limit, -1, each, places)
    return (np.full(ROWS, -np.inf), (limits - further).min(-1)), 0.0


EXACT = "exact: never less"
CAREFUL = "exact for exponential ones, careful for others"
MODELS: dict[str, Callable[..., np.ndarray]] = {
    "normal": lambda draw, size: draw.normal(size=size),
    "beta (2, 5)": lambda draw, size: draw.beta(2, 5, size),
    "exponential": lambda draw, size: draw.exponential(size=size),
}
FEW_STEPS = "outcomes come in steps"
UNSEEN = "room for what is rare and far"
SKEW = "too skewed for so few"
STEPS_SHORT = "outcomes come in steps: over all true shares it is the first row"
TAILS = "heavy tails"

KINDS = {
    "share of yes or no, over all true shares": of("share", yes, FEW_STEPS),
    "share of yes or no, 90 %": of("share", partial(yes, share=0.9), FEW_STEPS, STEPS_SHORT),
    "share of yes or no, 98 %": of("share", partial(yes, share=0.98), FEW_STEPS, STEPS_SHORT),
    "shares, uniform": of("share", partial(beta, a=1, b=1), UNSEEN),
    "shares, U-shaped": of("share", partial(beta, a=0.5, b=0.5), FEW_STEPS),
    "shares, skewed (Beta 5, 1)": of("share", partial(beta, a=5, b=1), UNSEEN),
    "shares, ten answers a sequence, 90 %": of("share", partial(in_part, share=0.9), UNSEEN),
    "shares, nine in ten exactly 1": of("share", nearly_all_one, UNSEEN),
    "shares, close together (Beta 50, 50)": of("share", partial(beta, a=50, b=50), UNSEEN),
    "paired yes or no, over all chances": of("difference in share", moved, FEW_STEPS),
    "paired yes or no, 1 % worse": of("difference in share", partial(moved, up=0.0, down=0.01), UNSEEN, STEPS_SHORT),
    "paired yes or no, 10 % better, 2 % worse": of("difference in share", partial(moved, up=0.1, down=0.02), UNSEEN),
    "paired shares": of(
        "difference in share", partial(less, first=partial(beta, a=5, b=1), second=partial(beta, a=1, b=1)), UNSEEN
    ),
    "means, normal": of("nats", partial(made, how="normal")),
    "means, uniform": of("nats", partial(made, how="uniform"), "light tails"),
    "means, skewed (gamma 4)": of("nats", partial(made, how="skewed")),
    "means, exponential": of("nats", partial(made, how="exponential"), short=SKEW),
    "means, lognormal": of("nats", partial(made, how="lognormal"), short=SKEW),
    "means, heavy tails (t of 3)": of("nats", partial(made, how="heavy tails"), short=TAILS),
    "two samples, yes or no": two("share", yes, yes, apart),
    "two samples, means": two("nats", partial(made, how="skewed"), partial(made, how="wider"), apart),
    "over seeds, 7 in 10 solve it": of(
        "share", partial(seeds, solved=0.7, spread=0.02, examples=64), FEW_STEPS, over_seeds=True
    ),
    "over seeds, 9 in 10 solve it": of(
        "share", partial(seeds, solved=0.9, spread=0.02, examples=64), UNSEEN, STEPS_SHORT, over_seeds=True
    ),
    "over seeds, all about 90 %": of(
        "share", partial(seeds, solved=1.0, spread=0.03, examples=64), UNSEEN, over_seeds=True
    ),
    **{
        f"over seeds, {100 * share:g} in 100 right in 99 %, else in 20 %": of(
            "share", partial(solve, solved=share), UNSEEN, over_seeds=True
        )
        for share in (0.5, 0.7, 0.9, 0.95)
    },
    "over seeds, normal, 50 ± 15 %": of("share", partial(alike, mean=0.5, spread=0.15), UNSEEN, over_seeds=True),
    "over seeds, normal, 90 ± 3 %": of("share", partial(alike, mean=0.9, spread=0.03), UNSEEN, over_seeds=True),
    **{
        f"share of seeds that reach a value, {100 * share:g} %": Kind(partial(reached, solved=share), EXACT)
        for share in (0.5, 0.7, 0.9, 0.95)
    },
    "over seeds, means": of("nats", partial(made, how="normal"), over_seeds=True),
    "two groups of seeds, means": two("nats", partial(made, how="normal"), partial(made, how="wider"), welch),
    "two groups of seeds, solve it or not": two("share", yes, yes, partial(apart, seeds=True)),
    **{
        f"two groups of seeds, {100 * one:g} and {100 * other:g} in 100 solve it": two(
            "share", partial(solve, solved=one), partial(solve, solved=other), partial(apart, seeds=True)
        )
        for one, other in ((0.5, 0.5), (0.95, 0.95), (0.95, 0.7), (0.9, 0.5), (0.9, 0.1))
    },
    "two groups of seeds, normal, 90 and 80 ± 3 %": two(
        "share",
        partial(alike, mean=0.9, spread=0.03),
        partial(alike, mean=0.8, spread=0.03),
        partial(apart, seeds=True),
    ),
    "one model probed anew, 90 %": Kind(partial(redrawn, share=0.9, examples=64), "no narrower than all together"),
    **{
        f"a further null model below the limit, {name}, at {places} place{'s' * (places > 1)}": Kind(
            partial(within_limit, rates=rates, places=places), CAREFUL
        )
        for name, rates in MODELS.items()
        for places in (1, 3, 7)
    },
}


def covered(name: str, n: int) -> float:
    """How often the interval of a kind of figure holds the truth, of samples of size n."""
    (low, high), truth = KINDS[name].draw(np.random.default_rng([n, list(KINDS).index(name)]), n)
    return float(np.mean((low <= truth) & (truth <= high)))


def table() -> str:
    """Every kind at every size, as Markdown; percent, and a note where it is not within what is promised."""
    lines = ["| an interval of | " + " | ".join(f"n = {n}" for n in SIZES) + " | |", "|---" * (len(SIZES) + 2) + "|"]
    for name, kind in KINDS.items():
        found = [covered(name, n) for n in SIZES]
        enough = [share for n, share in zip(SIZES, found, strict=True) if n >= statistics.LEAST_FOR_A_VERDICT]
        notes = [f"below: {kind.short}"] if min(enough) < PROMISED[0] - SLACK else []
        notes += [f"above: {kind.wider}"] if max(enough) > PROMISED[1] + SLACK else []
        lines.append(f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in found) + f" | {'; '.join(notes)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main(NAME, __doc__, table)
