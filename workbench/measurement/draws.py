"""Several models with fresh weights as a control: their mean and range, and how far a further one might lie.

One untrained model is one draw: over eight seeds the score of one claim went from .15 to .74, while the interval over
examples of each was a few points wide. What a claim has to exceed is the spread over models, not over examples.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from workbench.measurement.groups import by_group
from workbench.measurement.measurement import Measurement

DRAW = "draw"  # the dim of several models with fresh weights
ALPHA = 0.05  # that a further model which knows nothing lies above the limit, at any of the places looked at


def over_draws(draws: Measurement) -> Measurement:
    """The mean over models with fresh weights, with the range of the draws as its low and high.

    Args:
        draws: dims `draw` and any others, already averaged over examples.

    Returns the other dims; `n` counts examples behind each draw, `settings["draws"]` the models. NaN where no draw has
    a value.
    """
    axis = draws.axis(DRAW)
    values = draws.values
    known = ~np.isnan(values)
    count = known.sum(axis)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, values, 0).sum(axis) / count
    low = np.where(count > 0, np.where(known, values, np.inf).min(axis), np.nan)
    high = np.where(count > 0, np.where(known, values, -np.inf).max(axis), np.nan)
    n_draws = values.shape[axis]
    dims = tuple(dim for dim in draws.dims if dim != DRAW)
    return replace(
        draws,
        values=np.asarray(mean),
        dims=dims,
        coords={dim: draws.coords[dim] for dim in dims},
        settings={**draws.settings, "draws": n_draws},
        low=np.asarray(np.fmin(low, mean)),  # of equal draws the mean may differ by rounding
        high=np.asarray(np.fmax(high, mean)),
        n=None if draws.n is None else np.asarray(draws.n.min(axis)),
        caption=f"{draws.caption} Of models with fresh weights: the mean and range of {n_draws}.".strip(),
    )


def rates_by_group(scores: Measurement, groups: Sequence[Hashable], dim: str) -> Measurement:
    """The rates of `by_group`; those of several models with fresh weights become their mean and range in each group.

    Args:
        scores: per example; perhaps with the dim `draw`.
        groups: each example's group.
        dim: what the groups are.

    Raises:
        ValueError: as `by_group`.
    """
    rates = by_group(scores, groups, dim)
    return over_draws(rates) if DRAW in rates.dims else rates


def limit(values: Float[np.ndarray, " draw"], places: int = 1) -> float:
    """The limit that a further model with fresh weights exceeds, at any of the places, in at most `ALPHA` of cases.

    For numbers that are no counts of tries, such as an entropy; of counts, `judgement.against_controls` knows more.
    What a model has above the least is taken to be exponential: of k draws whose excesses over the least sum to S, a
    further one exceeds least + c S with probability k / (k + 1) · (1 + c)^(1 − k). With this tail, longer than a normal
    one, the limit is exact, and careful where tails are shorter; a t limit is exceeded in up to 26 % of cases at 7
    places. The largest draw is the limit where that is higher. How often it is exceeded is tabled in
    `docs/concepts/controls.md`.

    Args:
        values: of each draw; NaN ones are left out.
        places: at how many places (points, hops) a claim is looked at.

    Returns NaN for fewer than two draws.
    """
    drawn = values[~np.isnan(values)]
    k = len(drawn)
    if k < 2:
        return float("nan")
    least, excess = drawn.min(), (drawn - drawn.min()).sum()
    c = (ALPHA / places * (k + 1) / k) ** (-1 / (k - 1)) - 1
    return float(max(drawn.max(), least + c * excess))
