"""How sure a mean is, and whether two differ: bootstrap, Wilson and Student intervals, sign flips, Holm."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import stats

LEVEL = 0.95
Z = float(stats.norm.ppf(0.5 + LEVEL / 2))
RESAMPLES = 2000
FLIPS = 10_000
AT_ONCE = 1 << 24  # numbers

# From so many values on, every interval here covers as often as it says (docs/inspecting.md has the table), and not
# before: four yeses of four do not even tell a fair coin from a sure one. With fewer, no verdict is given.
LEAST_FOR_A_VERDICT = 5

Interval = tuple[np.ndarray, np.ndarray]


def mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and n over the last axis, leaving out NaN; the mean of nothing is NaN."""
    n = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(invalid="ignore"):
        return np.nansum(values, axis=-1) / n, n


def bootstrap(values: np.ndarray) -> Interval:
    """95 % interval of the mean over the last axis, by the BCa bootstrap (Efron 1987) with 2,000 resamples.

    Examples are drawn anew, with replacement; NaN stays where its example is, and is left out of each mean. The same
    values give the same interval: the resamples have a seed of their own, which all values of a measurement share.
    Where all resamples agree the interval has no width; where fewer than two values are there, it is NaN.
    """
    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), dtype=float)
    low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    present = ~np.isnan(rows)
    n = present.sum(-1)
    for start in range(0, len(rows), max(1, AT_ONCE // RESAMPLES)):
        part = slice(start, start + max(1, AT_ONCE // RESAMPLES))
        low[part], high[part] = _bca(np.where(present[part], rows[part], 0.0), present[part])
    enough = n >= 2
    shape = values.shape[:-1]
    return np.where(enough, low, np.nan).reshape(shape), np.where(enough, high, np.nan).reshape(shape)


def _bca(rows: np.ndarray, present: np.ndarray) -> Interval:
    """Interval of each row's mean over what is present; elsewhere rows hold 0."""
    weights = _resamples(rows.shape[-1])
    whole = bool(present.all())
    with np.errstate(invalid="ignore", divide="ignore"):
        drawn = rows @ weights / (rows.shape[-1] if whole else present @ weights)
        n = present.sum(-1, keepdims=True)
        centre = rows.sum(-1, keepdims=True) / n
        apart = np.where(present, rows - centre, 0.0)
        squares = (apart**2).sum(-1)
        # of a mean, the acceleration from the jackknife is a sixth of the skewness of its sum
        acceleration = np.where(squares > 0, (apart**3).sum(-1) / (6 * squares**1.5), 0.0)
    drawn = np.sort(np.where(np.isnan(drawn), centre, drawn), axis=-1)
    slack = 1e-12 * (np.abs(centre) + 1e-300)  # what rounding does to equal means is no difference
    below = ((drawn < centre - slack).mean(-1) + (drawn <= centre + slack).mean(-1)) / 2
    bias = stats.norm.ppf(np.clip(below, 1 / RESAMPLES, 1 - 1 / RESAMPLES))
    ends = []
    for tail in (-Z, Z):
        moved = bias + (bias + tail) / (1 - acceleration * (bias + tail))
        place = stats.norm.cdf(moved) * (RESAMPLES - 1)
        left = np.floor(place).astype(int)
        right = np.minimum(left + 1, RESAMPLES - 1)
        share = place - left
        line = np.arange(len(drawn))
        ends.append(drawn[line, left] * (1 - share) + drawn[line, right] * share)
    return ends[0], ends[1]


@lru_cache(maxsize=8)
def _resamples(n: int) -> np.ndarray:
    """How often each of n examples is drawn in each resample: `[n, resample]`."""
    draws = np.random.default_rng(n).integers(0, n, (RESAMPLES, n))
    counts = np.zeros((RESAMPLES, n))
    np.add.at(counts, (np.arange(RESAMPLES)[:, None], draws), 1.0)
    return np.ascontiguousarray(counts.T)


def share_interval(values: np.ndarray) -> Interval:
    """`bootstrap` for shares, within [0, 1]; where every value is 0, or every value 1, Wilson's.

    There a bootstrap has nothing to draw but the same again, and would claim certainty.
    """
    low, high = bootstrap(values)
    share, n = mean(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        wilson_low, wilson_high = wilson(share, n)
        constant = np.nanmin(_or_nan(values), axis=-1) == np.nanmax(_or_nan(values), axis=-1)
        degenerate = constant & np.isin(share, (0, 1)) & (n > 0)
    return np.where(degenerate, wilson_low, low).clip(0, 1), np.where(degenerate, wilson_high, high).clip(0, 1)


def _or_nan(values: np.ndarray) -> np.ndarray:
    """The same with a number in rows that are all NaN, so that their extremes can be asked for quietly."""
    nothing = np.isnan(values).all(-1, keepdims=True)
    return np.where(nothing, -1.0, values)


def wilson(share: np.ndarray, n: np.ndarray) -> Interval:
    """Wilson's 95 % score interval of a share of n yes-or-no outcomes."""
    centre = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return centre - half, centre + half


def student(values: np.ndarray) -> Interval:
    """Student's 95 % interval of the mean over the last axis: for a handful of seeds, too few to resample."""
    centre, n = mean(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.nansum((values - centre[..., None]) ** 2, axis=-1) / (n - 1))
        half = stats.t.ppf(0.5 + LEVEL / 2, np.maximum(n - 1, 1)) * spread / np.sqrt(n)
    half = np.where(n > 1, half, np.nan)
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


def sign_flip(differences: np.ndarray) -> np.ndarray:
    """Two-sided p of the mean over the last axis being 0, by flipping signs at random (10,000 times; NaN left out).

    The chance, if either of a pair could as well have been the other, of a mean at least this far from 0. The smallest
    p that it can tell is 1 in 10,001.
    """
    rows = differences.reshape(-1, differences.shape[-1])
    signs = np.random.default_rng(0).choice((-1.0, 1.0), (rows.shape[-1], FLIPS))
    total = np.nansum(rows, axis=-1)
    flipped = np.abs(np.nan_to_num(rows) @ signs)
    slack = 1e-12 * np.nansum(np.abs(rows), axis=-1, keepdims=True)
    p = (1 + (flipped >= np.abs(total)[:, None] - slack).sum(-1)) / (FLIPS + 1)
    known = (~np.isnan(rows)).any(-1)
    return np.where(known, p, np.nan).reshape(differences.shape[:-1])


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjustment of p values for their number: below 0.05, the chance of any false alarm among all is too."""
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * steps))
    return adjusted
