"""Whether two means differ: p values by flipping signs and by relabelling seeds, and Holm's adjustment of several."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
from scipy import stats

from workbench.measurement.intervals import parts

FLIPS = 10_000  # of signs, or ways of sharing out seeds, where not all are gone through
FEW_TO_COUNT = 100  # flips at least as far: fewer, and the tail is worked out instead
ALL_SIGNS = 14  # differences whose every combination of signs is gone through


def sign_flip(differences: np.ndarray) -> np.ndarray:
    """Two-sided p of the mean over the last axis being 0, by flipping signs; NaN is left out.

    The chance, if either of a pair could as well have been the other, of a mean at least this far from 0. Up to 14
    differences (other than 0), every combination of signs is counted; of more, 10,000 at random. Where fewer than 100
    of these are as far, the tail is Lugannani and Rice's saddlepoint approximation of the same distribution (Robinson
    1982); so p is not limited by the number of flips, however many comparisons it is then adjusted for.
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
    """For each row, how many of its sums with flipped signs are at least as far from 0 as `total`."""
    counts = np.zeros(len(rows), dtype=int)
    far = np.abs(total) - 1e-12 * np.abs(rows).sum(-1)  # what rounding does to equal sums is no difference
    for part in parts(len(rows), signs.shape[-1]):
        counts[part] = (np.abs(rows[part] @ signs) >= far[part, None]).sum(-1)
    return counts


def _tail(sizes: np.ndarray, counted: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Two-sided chance that n sizes with random signs sum to `total` or more, for totals far out.

    With K(t) = Σ log cosh(t·size), t solves K'(t) = total; Newton's steps from 0 never pass it, as K' is concave. Sums
    of equal sizes come in steps: half a step, the least size, is taken off, which has little effect where sizes vary.
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
