"""Interval of the difference of two independent means."""

from __future__ import annotations

import numpy as np
from scipy import stats

from workbench.measurement.intervals.base import TAILS, Interval, mean, spread_of


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
    (one, n), (other, k) = mean(first), mean(second)
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = spread_of(first) ** 2 / n, spread_of(second) ** 2 / k
        freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (k - 1))
        half = stats.t.ppf(TAILS[1], freedom) * np.sqrt(a + b)
    return other - one - half, other - one + half
