"""95 % intervals of means: of rates, of numbers without bounds, and of differences.

Rates (`graded`, `bounded`) are of what lies between two bounds (shares, outcomes, their differences), `bootstrap` of
everything else, `apart` and `welch` of two independent means. Which interval is for what was decided by how often each
covers the truth: docs/concepts/controls.md has the table. Tests of whether two means differ are in
`measurement.p_values`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import stats

LEVEL = 0.95
TAILS = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
AT_ONCE = 1 << 24  # numbers held in memory

# From so many values on, every interval here covers as often as it says (the table in docs/concepts/controls.md), and
# not before: four yeses of four do not even tell a fair coin from a sure one. With fewer, no verdict is given.
LEAST_FOR_A_VERDICT = 5
FEWEST = 2  # values that have an interval at all
ROUNDING = 1e-6  # of their size: numbers that a model computed in single precision and that differ by less are equal

Interval = tuple[np.ndarray, np.ndarray]
"""The low and the high end, each of the shape of the means."""

RESAMPLES = 2000
FARTHEST = 3.0  # times Student's: how far an end from a studentised bootstrap may lie
DRAWS = 4000  # of weights
STEP = 0.01  # shares that lie closer than this, all n together, may be outcomes that come in steps


def mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and n over the last axis, leaving out NaN; the mean of nothing is NaN."""
    n = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(invalid="ignore"):
        return np.nansum(values, axis=-1) / n, n


def around(values: np.ndarray, ends: Interval) -> Interval:
    """An interval widened to hold the mean over the last axis, which by rounding an end may lie beyond."""
    centre, _ = mean(values)
    low, high = ends
    return np.where(low > centre, centre, low), np.where(high < centre, centre, high)


def _spread_of(values: np.ndarray) -> np.ndarray:
    """The standard deviation over the last axis, NaN where it is unknown: of one value, or of equal ones."""
    centre, n = mean(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.nansum((values - centre[..., None]) ** 2, axis=-1) / (n - 1))
        size = np.sqrt(np.nansum(values**2, axis=-1) / n)
        return np.where((n >= FEWEST) & (spread > ROUNDING * size), spread, np.nan)


def parts(n: int, each: int) -> list[slice]:
    """Slices of n rows so that at most `AT_ONCE` numbers are in memory, each row needing `each` of them."""
    step = max(1, AT_ONCE // each)
    return [slice(start, start + step) for start in range(0, n, step)]


def bootstrap(values: np.ndarray) -> Interval:
    """95 % interval of the mean over the last axis: a studentised bootstrap (Hall 1988); below n = 5, Student's.

    Each of 2,000 resamples has its own t, and the quantiles of these stand for Student's; so a skewed sample has a
    skewed interval, and a handful of values one that is wide enough. A resample of few different values may have
    next to no spread: no end lies further from the mean than thrice Student's. NaN is left out. The same values give
    the same interval. Where all values are equal, their spread is unknown and so is the interval: NaN.
    """
    rows = np.ascontiguousarray(values.reshape(math.prod(values.shape[:-1]), values.shape[-1]), dtype=float)
    present = ~np.isnan(rows)
    n = present.sum(-1)
    low, high = (end.copy() for end in student(rows))
    for size in np.unique(n[n >= LEAST_FOR_A_VERDICT]):
        alike = np.flatnonzero(n == size)
        for part in parts(len(alike), RESAMPLES):
            which = alike[part]
            low[which], high[which] = _studentised(rows[which][present[which]].reshape(-1, size))
    return low.reshape(values.shape[:-1]), high.reshape(values.shape[:-1])


def _studentised(rows: np.ndarray) -> Interval:
    """The studentised bootstrap of rows without NaN, `[row, value]`."""
    n = rows.shape[-1]
    counts = _resamples(n)
    centre = rows.mean(-1, keepdims=True)
    apart, spread = rows - centre, _spread_of(rows)
    with np.errstate(invalid="ignore", divide="ignore"):
        moved = apart @ counts / n
        own = np.sqrt(np.maximum((apart**2 @ counts / n - moved**2) / (n - 1), 0))
        t = np.divide(moved, own, out=np.copysign(np.inf, moved), where=own > 1e-6 * spread[:, None] / np.sqrt(n))
    farthest = FARTHEST * stats.t.ppf(TAILS[1], n - 1)
    below, above = np.quantile(np.clip(t, -farthest, farthest), TAILS, axis=-1) * spread / np.sqrt(n)
    return centre[:, 0] - above, centre[:, 0] - below


@lru_cache(maxsize=8)
def _resamples(n: int) -> np.ndarray:
    """How often each of n examples is drawn in each resample: `[n, resample]`."""
    counts = np.random.default_rng(n).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return np.ascontiguousarray(counts.T, dtype=float)


def student(values: np.ndarray) -> Interval:
    """Student's 95 % interval of the mean over the last axis; NaN for a single value, or where all are equal."""
    centre, n = mean(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        half = stats.t.ppf(TAILS[1], np.maximum(n - 1, 1)) * _spread_of(values) / np.sqrt(n)
    return centre - half, centre + half


def apart(first: Interval, second: Interval, centres: tuple[np.ndarray, np.ndarray]) -> Interval:
    """95 % interval of the difference of two independent means, second less first, from the interval of each.

    By the method of variance estimates recovery (Zou and Donner 2008): an end of the difference is as far from its
    centre as the two ends that make it are from theirs, at right angles. So a difference of shares keeps its width
    where all of both are right, as Newcombe's (1998) does, and skewed intervals stay skewed.

    Args:
        first, second: (low, high) of each.
        centres: the two means.
    """
    difference = centres[1] - centres[0]
    below = np.hypot(centres[1] - second[0], first[1] - centres[0])
    above = np.hypot(second[1] - centres[1], centres[0] - first[0])
    return difference - below, difference + above


def welch(first: np.ndarray, second: np.ndarray) -> Interval:
    """Welch's 95 % interval of the difference of two means over the last axes, second less first; NaN is left out."""
    (first_mean, n), (second_mean, k) = mean(first), mean(second)
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = _spread_of(first) ** 2 / n, _spread_of(second) ** 2 / k
        freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (k - 1))
        half = stats.t.ppf(TAILS[1], freedom) * np.sqrt(a + b)
    return second_mean - first_mean - half, second_mean - first_mean + half


def graded(values: np.ndarray, least: float = 0.0, most: float = 1.0) -> Interval:
    """95 % interval of the mean of a share, or of a difference of shares, of each example: `bounded` for outcomes.

    Values that come in steps (right or wrong) may have a step that the sample does not show; they get the `bounded`
    interval. A share that varies freely, such as attention's mass, shows by its spread how it varies; it gets the
    `bootstrap` interval. Between the two, the interval changes without a jump, with the fraction of neighbours, in
    order of size, that agree: for n values, a gap counts as exp(-n·gap / 0.01), and where half or more agree, the
    interval is that of outcomes.
    """
    low, high = bounded(values, least, most)
    free_low, free_high = (end.clip(least, most) for end in bootstrap(values))
    n = np.sum(~np.isnan(values), axis=-1)
    gaps = np.diff(np.sort(values, axis=-1), axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        agree = np.nansum(np.exp(-n[..., None] * gaps / STEP), axis=-1) / (n - 1)
    steps = np.where(np.isnan(free_low), 1.0, np.minimum(1.0, 2 * agree))
    free_low, free_high = np.nan_to_num(free_low), np.nan_to_num(free_high)
    return steps * low + (1 - steps) * free_low, steps * high + (1 - steps) * free_high


def bounded(values: np.ndarray, least: float, most: float) -> Interval:
    """95 % interval of the mean, over the last axis, of values that lie between two bounds: shares, their differences.

    The Bayesian bootstrap (Rubin 1981) with half an observation added at each bound: 4,000 weighted means, with
    weights from Dirichlet(1, ..., 1, 1/2, 1/2) over the n values and the two bounds. For yes-or-no outcomes this is
    Jeffreys's interval (Brown, Cai and DasGupta 2001), so it has the width of a score interval where all are right.
    For other values it is continuous in the values, since no case is treated separately, and it stays within the
    bounds. (Whole observations at the bounds would give Gaffke's bound, which for yes-or-no outcomes is Clopper and
    Pearson's interval, and wider.) A sample may lack values that are rare and far from the others; so values that lie
    close together get a wider interval than Student's, by a fraction of the order 1/n, not 1/√n.

    Use it where complete failure is possible though none was observed: for seeds, and for outcomes (see `graded`).

    Args:
        values: the values, NaN where one is missing; with fewer than `FEWEST` of them, the interval is NaN.
        least, most: the bounds.
    """
    rows = np.ascontiguousarray(values.reshape(math.prod(values.shape[:-1]), values.shape[-1]), dtype=float)
    present = ~np.isnan(rows)
    scaled = np.where(present, np.clip((rows - least) / (most - least), 0, 1), 0.0).astype(np.float32)
    low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    weights, ends = _weights(rows.shape[-1])
    for part in parts(len(rows), DRAWS):
        above = scaled[part] @ weights
        above += ends[1]
        inside = present[part]
        total = weights.sum(0) if inside.all() else inside.astype(np.float32) @ weights
        above /= total + ends.sum(0)
        low[part], high[part] = np.quantile(above, TAILS, axis=-1)
    n = present.sum(-1)
    low, high = (np.where(n >= FEWEST, least + (most - least) * end, np.nan) for end in (low, high))
    shape = values.shape[:-1]
    return around(values.clip(least, most), (low.reshape(shape), high.reshape(shape)))  # if all are right, to all right


def exact(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's (1934) exact 95 % interval of a share of yeses: it covers at least as often, at any share.

    Five of five leave 48 % to 100 %: how many of all seeds solve a task of which five of five did.
    """
    low = 0.0 if hits == 0 else float(stats.beta.ppf(TAILS[0], hits, n - hits + 1))
    high = 1.0 if hits == n else float(stats.beta.ppf(TAILS[1], hits + 1, n - hits))
    return low, high


@lru_cache(maxsize=4)
def _weights(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of n values, `[n, draw]`, and of the two bounds, `[2, draw]`, before they are scaled to sum to 1.

    Each draw is there twice, the second time with the two bounds swapped, so that mirrored values get the mirrored
    interval. The draws of each weight are evenly spread quantiles in random order, so that less depends on chance.
    """
    draw = np.random.default_rng(n)
    even = (np.arange(DRAWS // 2) + 0.5) / (DRAWS // 2)
    of_one, of_half = (stats.gamma.ppf(even, shape).astype(np.float32) for shape in (1.0, 0.5))
    inner = draw.permuted(np.tile(of_one, (n, 1)), axis=1)
    ends = draw.permuted(np.tile(of_half, (2, 1)), axis=1)
    return np.concatenate([inner, inner], axis=-1), np.concatenate([ends, ends[::-1]], axis=-1)


def redrawn(each: np.ndarray, n: np.ndarray) -> Interval:
    """95 % interval of a share over a few draws of sequences, such as one model probed again with other seeds.

    Student's interval over the draws, which includes what differs from draw to draw. It is never narrower than
    Jeffreys's interval of all their sequences together, so that draws that agree by chance claim no more than their
    sequences show.

    Args:
        each: `[..., draw]`, the share in each; NaN is left out.
        n: `[..., draw]`, the number of sequences in each draw.
    """
    centre, draws = mean(each)
    total = np.sum(np.where(np.isnan(each), 0, n), axis=-1)
    right, wrong = centre * total + 0.5, (1 - centre) * total + 0.5
    low, high = student(each)
    low = np.fmin(np.fmin(low, stats.beta.ppf(TAILS[0], right, wrong)), centre).clip(0, 1)
    high = np.fmax(np.fmax(high, stats.beta.ppf(TAILS[1], right, wrong)), centre).clip(0, 1)
    return np.where(draws >= FEWEST, low, np.nan), np.where(draws >= FEWEST, high, np.nan)
