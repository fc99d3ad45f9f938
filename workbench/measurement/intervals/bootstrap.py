"""Interval of the mean of numbers without bounds: a studentised bootstrap, and Student's for a handful of values."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import stats

from workbench.measurement.intervals.base import LEAST_FOR_A_VERDICT, TAILS, Interval, mean, parts, spread_of

RESAMPLES = 2000
FARTHEST = 3.0  # times Student's: how far an end from a studentised bootstrap may lie


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
    apart, spread = rows - centre, spread_of(rows)
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
        half = stats.t.ppf(TAILS[1], np.maximum(n - 1, 1)) * spread_of(values) / np.sqrt(n)
    return centre - half, centre + half
