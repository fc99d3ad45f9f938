"""What every interval shares: its level, the fewest values that have one, and the mean that it is around."""

from __future__ import annotations

import numpy as np

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


def spread_of(values: np.ndarray) -> np.ndarray:
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
