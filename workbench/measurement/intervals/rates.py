"""Interval of a rate: the mean of yes-or-no outcomes, of shares, of their differences, or of several seeds' rates."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import stats

from workbench.measurement.intervals.base import FEWEST, TAILS, Interval, around, mean, parts
from workbench.measurement.intervals.bootstrap import bootstrap, student

DRAWS = 4000  # of weights
STEP = 0.01  # shares that lie closer than this, all n together, may be outcomes that come in steps


def share_interval(values: np.ndarray) -> Interval:
    """The `graded` interval of shares, which lie between 0 and 1."""
    return graded(values, 0.0, 1.0)


def graded(values: np.ndarray, least: float, most: float) -> Interval:
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
    for part in parts(len(rows), DRAWS):
        low[part], high[part] = _reweighed(scaled[part], present[part])
    n = present.sum(-1)
    low, high = (np.where(n >= FEWEST, least + (most - least) * end, np.nan) for end in (low, high))
    ends = low.reshape(values.shape[:-1]), high.reshape(values.shape[:-1])
    return around(values.clip(least, most), ends)  # where all are right, up to all right


def exact(hits: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's (1934) exact 95 % interval of a share of yeses: it covers at least as often, at any share.

    Five of five leave 48 % to 100 %: how many of all seeds solve a task of which five of five did.
    """
    low = 0.0 if hits == 0 else float(stats.beta.ppf(TAILS[0], hits, n - hits + 1))
    high = 1.0 if hits == n else float(stats.beta.ppf(TAILS[1], hits + 1, n - hits))
    return low, high


def _reweighed(scaled: np.ndarray, present: np.ndarray) -> Interval:
    weights, ends = _weights(scaled.shape[-1])
    above = scaled @ weights
    above += ends[1]
    total = weights.sum(0) if present.all() else present.astype(np.float32) @ weights
    above /= total + ends.sum(0)
    low, high = np.quantile(above, TAILS, axis=-1)
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
