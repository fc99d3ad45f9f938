"""How sure a mean is, and whether two differ: intervals of shares and of means, sign flips, relabelled seeds, Holm.

Which interval is for what was decided by how often each covers the truth: docs/inspecting.md has the table.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from scipy import stats

LEVEL = 0.95
TAILS = (0.5 - LEVEL / 2, 0.5 + LEVEL / 2)
DRAWS = 4000  # of weights, for a share
RESAMPLES = 2000  # for a mean
FLIPS = 10_000
AT_ONCE = 1 << 24  # numbers

# From so many values on, every interval here covers as often as it says (docs/inspecting.md has the table), and not
# before: four yeses of four do not even tell a fair coin from a sure one. With fewer, no verdict is given.
LEAST_FOR_A_VERDICT = 5
FEWEST = 2  # values that have an interval at all
STEP = 0.01  # shares that lie closer than this, all n together, may be outcomes that come in steps
FARTHEST = 3.0  # times Student's: how far an end from a studentised bootstrap may lie
FEW_TO_COUNT = 100  # flips at least as far: fewer, and the tail is worked out instead
ROUNDING = 1e-6  # of their size: numbers that a model computed in single precision and that differ by less are equal
ALL_SIGNS = 14  # differences whose every combination of signs is gone through

Interval = tuple[np.ndarray, np.ndarray]


def mean(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and n over the last axis, leaving out NaN; the mean of nothing is NaN."""
    n = np.sum(~np.isnan(values), axis=-1)
    with np.errstate(invalid="ignore"):
        return np.nansum(values, axis=-1) / n, n


def bounded(values: np.ndarray, least: float, most: float) -> Interval:
    """95 % interval of the mean, over the last axis, of values that lie between two bounds: shares, their differences.

    The Bayesian bootstrap (Rubin 1981) with half an observation added at each bound: the mean is weighed anew, 4,000
    times, with weights from Dirichlet(1, ..., 1, 1/2, 1/2) over the n values and the two bounds. Of yes-or-no
    outcomes that is Jeffreys's interval (Brown, Cai and DasGupta 2001), so it has the width of a score interval where
    all are right; of other values it is continuous in them, as no other case is told apart, and it keeps within the
    bounds. (Whole observations at the bounds would be Gaffke's bound, which is Clopper and Pearson's interval of
    yes-or-no outcomes, and wider.) As the values may not have shown yet what is rare and far, values that lie close
    together get a wider interval than Student's: by a part of the order 1/n, not 1/√n.

    It is for what may fail altogether though it has not yet: seeds, and outcomes (see `graded`).

    Args:
        values: NaN where there is none; below `FEWEST`, the interval is NaN.
        least, most: the bounds.
    """
    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), dtype=float)
    present = ~np.isnan(rows)
    scaled = np.where(present, np.clip((rows - least) / (most - least), 0, 1), 0.0).astype(np.float32)
    low, high = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    for part in _parts(len(rows), DRAWS):
        low[part], high[part] = _reweighed(scaled[part], present[part])
    n = present.sum(-1)
    low, high = (np.where(n >= FEWEST, least + (most - least) * end, np.nan) for end in (low, high))
    ends = low.reshape(values.shape[:-1]), high.reshape(values.shape[:-1])
    return around(values.clip(least, most), ends)  # where all are right, up to all right


def around(values: np.ndarray, ends: Interval) -> Interval:
    """An interval widened to hold the mean over the last axis, which by rounding an end may lie beyond."""
    centre, _ = mean(values)
    low, high = ends
    return np.where(low > centre, centre, low), np.where(high < centre, centre, high)


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

    Each is there twice, with the bounds swapped, so that what is mirrored has the mirrored interval. The draws of
    each weight are evenly spread quantiles in random order, which leaves less to chance.
    """
    draw = np.random.default_rng(n)
    even = (np.arange(DRAWS // 2) + 0.5) / (DRAWS // 2)
    of_one, of_half = (stats.gamma.ppf(even, shape).astype(np.float32) for shape in (1.0, 0.5))
    inner = draw.permuted(np.tile(of_one, (n, 1)), axis=1)
    ends = draw.permuted(np.tile(of_half, (2, 1)), axis=1)
    return np.concatenate([inner, inner], axis=-1), np.concatenate([ends, ends[::-1]], axis=-1)


def share_interval(values: np.ndarray) -> Interval:
    """`graded` for shares."""
    return graded(values, 0.0, 1.0)


def graded(values: np.ndarray, least: float, most: float) -> Interval:
    """95 % interval of the mean of a share, or of a difference of shares, of each example: `bounded` for outcomes.

    What comes in steps (right or wrong) may have a step that a sample does not show, and has the `bounded` interval; a
    share that varies freely, such as attention's mass, shows in its spread how it varies, and has the `bootstrap`'s.
    Between the two it goes over without a jump, by the part of neighbours in order of size that agree: of n values,
    a gap counts as exp(-n·gap / 0.01), and where half or more agree, the interval is that of outcomes.
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


def bootstrap(values: np.ndarray) -> Interval:
    """95 % interval of the mean over the last axis: a studentised bootstrap (Hall 1988); below n = 5, Student's.

    Each of 2,000 resamples has its own t, and the quantiles of these stand for Student's; so a skewed sample has a
    skewed interval, and a handful of values one that is wide enough. A resample of few different values may have
    next to no spread: no end lies further from the mean than thrice Student's. NaN is left out. The same values give
    the same interval. Where all values are equal, their spread is unknown and so is the interval: NaN.
    """
    rows = np.ascontiguousarray(values.reshape(-1, values.shape[-1]), dtype=float)
    present = ~np.isnan(rows)
    n = present.sum(-1)
    low, high = (end.copy() for end in student(rows))
    for size in np.unique(n[n >= LEAST_FOR_A_VERDICT]):
        alike = np.flatnonzero(n == size)
        for part in _parts(len(alike), RESAMPLES):
            which = alike[part]
            low[which], high[which] = _studentised(rows[which][present[which]].reshape(-1, size))
    return low.reshape(values.shape[:-1]), high.reshape(values.shape[:-1])


def _studentised(rows: np.ndarray) -> Interval:
    """Of rows without gaps."""
    n = rows.shape[-1]
    counts = _resamples(n)
    centre = rows.mean(-1, keepdims=True)
    apart, spread = rows - centre, _spread(rows)
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
        half = stats.t.ppf(TAILS[1], np.maximum(n - 1, 1)) * _spread(values) / np.sqrt(n)
    return centre - half, centre + half


def _spread(values: np.ndarray) -> np.ndarray:
    """The standard deviation over the last axis, NaN where it is unknown: of one value, or of equal ones."""
    centre, n = mean(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt(np.nansum((values - centre[..., None]) ** 2, axis=-1) / (n - 1))
        size = np.sqrt(np.nansum(values**2, axis=-1) / n)
        return np.where((n >= FEWEST) & (spread > ROUNDING * size), spread, np.nan)


def redrawn(each: np.ndarray, n: np.ndarray) -> Interval:
    """95 % interval of a share over a few draws of sequences, as of one model probed anew with other seeds.

    Student's over the draws, which holds what differs from draw to draw; nowhere narrower than Jeffreys's of all their
    sequences together, so that draws which happen to agree claim no more than their sequences tell.

    Args:
        each: `[..., draw]`, the share in each; NaN is left out.
        n: `[..., draw]`, how many sequences each is of.
    """
    centre, draws = mean(each)
    total = np.sum(np.where(np.isnan(each), 0, n), axis=-1)
    right, wrong = centre * total + 0.5, (1 - centre) * total + 0.5
    low, high = student(each)
    low = np.fmin(np.fmin(low, stats.beta.ppf(TAILS[0], right, wrong)), centre).clip(0, 1)
    high = np.fmax(np.fmax(high, stats.beta.ppf(TAILS[1], right, wrong)), centre).clip(0, 1)
    return np.where(draws >= FEWEST, low, np.nan), np.where(draws >= FEWEST, high, np.nan)


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
        a, b = _spread(first) ** 2 / n, _spread(second) ** 2 / k
        freedom = (a + b) ** 2 / (a**2 / (n - 1) + b**2 / (k - 1))
        half = stats.t.ppf(TAILS[1], freedom) * np.sqrt(a + b)
    return other - one - half, other - one + half


def sign_flip(differences: np.ndarray) -> np.ndarray:
    """Two-sided p of the mean over the last axis being 0, by flipping signs; NaN is left out.

    The chance, if either of a pair could as well have been the other, of a mean at least this far from 0. Up to 14
    differences (other than 0), every combination of signs is counted; of more, 10,000 at random. Where fewer than 100
    of these are as far, the tail is Lugannani and Rice's saddlepoint approximation of the same distribution (Robinson
    1982), so that a p may be as small as it is, however many comparisons it has to be held against.
    """
    rows = np.nan_to_num(differences.reshape(-1, differences.shape[-1])).astype(float)
    known = (~np.isnan(differences.reshape(rows.shape))).any(-1)
    counted = (rows != 0).sum(-1)
    p = np.ones(len(rows))
    few = (counted <= ALL_SIGNS) & known
    if few.any():
        kept = -np.sort(-np.abs(rows[few]), axis=-1)[:, :ALL_SIGNS]
        signs = 1.0 - 2.0 * (np.arange(1 << kept.shape[-1]) >> np.arange(kept.shape[-1])[:, None] & 1)
        p[few] = _as_far(kept, rows[few].sum(-1), signs) / signs.shape[-1]
    many = np.flatnonzero(~few & known)
    if len(many):
        signs = np.random.default_rng(0).choice((-1.0, 1.0), (rows.shape[-1], FLIPS))
        far = _as_far(rows[many], rows[many].sum(-1), signs)
        p[many] = (1 + far) / (FLIPS + 1)
        rare = many[far < FEW_TO_COUNT]
        p[rare] = _tail(np.abs(rows[rare]), counted[rare], np.abs(rows[rare].sum(-1)))
    return np.where(known, p, np.nan).reshape(differences.shape[:-1])


def _as_far(rows: np.ndarray, total: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """How many of the flipped sums are as far from 0 as each row's own."""
    found = np.zeros(len(rows), dtype=int)
    far = np.abs(total) - 1e-12 * np.abs(rows).sum(-1)  # what rounding does to equal sums is no difference
    for part in _parts(len(rows), signs.shape[-1]):
        found[part] = (np.abs(rows[part] @ signs) >= far[part, None]).sum(-1)
    return found


def _tail(sizes: np.ndarray, counted: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Two-sided chance that n sizes with random signs sum to `total` or more, for totals far out.

    With K(t) = Σ log cosh(t·size), t solves K'(t) = total; Newton's steps from 0 never pass it, as K' is concave. Sums
    of equal sizes come in steps: half a step, the least size, is taken off, which sizes that vary do not feel.
    """
    least = np.where(sizes > 0, sizes, np.inf).min(-1)
    scale = np.sqrt((sizes**2).sum(-1))
    x, s = sizes / scale[:, None], (total - least) / scale
    t = np.zeros(len(x))
    for _ in range(200):
        held = np.tanh(t[:, None] * x)
        step = (s - (x * held).sum(-1)) / (x**2 * (1 - held**2)).sum(-1)
        t += step
        if (np.abs(step) < 1e-10 * (1 + t)).all():
            break
    y = t[:, None] * x
    K = (y + np.log1p(np.exp(-2 * y)) - np.log(2)).sum(-1)
    w = np.sqrt(np.maximum(2 * (t * s - K), 1e-300))
    u = t * np.sqrt((x**2 / np.cosh(y) ** 2).sum(-1))
    one_sided = stats.norm.sf(w) + stats.norm.pdf(w) * (1 / u - 1 / w)
    return np.clip(2 * one_sided, 2.0 ** (1.0 - counted), 1.0)  # all of one sign: nothing is rarer


def relabelled(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Two-sided p of two groups of seeds having the same mean, by sharing out all their seeds anew in every way.

    The chance, if the groups are alike, of a difference of means at least this large; with 3 and 3 seeds it cannot be
    below 1 in 10, with 5 and 5 not below 1 in 126. Above 10,000 ways, so many at random.

    Args:
        first, second: `[..., seed]`; where a seed's value is NaN, p is too.
    """
    both = np.concatenate([first, second], axis=-1).reshape(-1, first.shape[-1] + second.shape[-1])
    k, n = second.shape[-1], both.shape[-1]
    if comb(n, k) <= FLIPS:
        ways: list[tuple[int, ...]] = list(combinations(range(n), k))
    else:
        draw = np.random.default_rng(0)
        ways = [tuple(range(n - k, n)), *(tuple(draw.permutation(n)[:k]) for _ in range(FLIPS))]
    share = np.full((n, len(ways)), -1 / (n - k))
    for column, way in enumerate(ways):
        share[list(way), column] = 1 / k
    known = ~np.isnan(both).any(-1)
    centred = np.where(known[:, None], both - both.mean(-1, keepdims=True), 0.0)
    own = np.abs(centred[:, n - k :].mean(-1) - centred[:, : n - k].mean(-1))
    far = np.abs(centred @ share) >= (own - 1e-12 * np.abs(both).max(-1, initial=0.0))[:, None]
    return np.where(known, far.mean(-1), np.nan).reshape(first.shape[:-1])


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjustment of p values for their number: below 0.05, the chance of any false alarm among all is too."""
    adjusted = np.full(p.shape, np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * steps))
    return adjusted


def _parts(n: int, each: int) -> list[slice]:
    """Slices of n rows, of each of which so many numbers are held at once."""
    step = max(1, AT_ONCE // each)
    return [slice(start, start + step) for start in range(0, n, step)]
