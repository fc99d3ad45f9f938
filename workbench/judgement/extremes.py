"""Where a measure is least or most, and which other places cannot be told from there; where a curve rises most."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool

from workbench.judgement.against_controls import Stored
from workbench.measurement import Measurement
from workbench.measurement.measurement import interval

Which = Literal["least", "most"]
LEAST_RISE = 0.05  # a smaller one of accuracy is not called a rise: an evaluation has a few hundred sequences


class Extreme(Stored):
    """The least or most of a measure over its places.

    Attributes:
        which: the least or the most.
        places: dim -> label of each place that it may be: where the value is, or that cannot be told from there, in the
            measure's order.
        value: the extreme value.
        reach: the value farthest from it at any of these places.
        n: how many places have a value.
    """

    which: Which
    places: tuple[dict[str, Any], ...]
    value: float
    reach: float
    n: int

    @property
    def settled(self) -> bool:
        """Whether it is at one place, and not at the others."""
        return len(self.places) == 1 < self.n

    @property
    def anywhere(self) -> bool:
        """Whether it may be at every place."""
        return len(self.places) == self.n


def extreme(m: Measurement, which: Which, examples: Measurement | None = None) -> Extreme | None:
    """Where a measure is least or most; None where it has no value.

    Another place is told from the extreme one where the interval of their difference excludes 0: paired over the
    examples, or over the seeds that the measure is a mean over; without these where their intervals are apart; without
    intervals where the values differ.

    Args:
        m: any dims.
        examples: the same measure with the dim `example`, where it is a mean over these.
    """
    known = ~np.isnan(m.values)
    if not known.any():
        return None
    sign = 1.0 if which == "least" else -1.0
    best = np.unravel_index(int(np.where(known, sign * m.values, np.inf).argmin()), m.values.shape)
    tied = np.array(known & ~_apart(m, sign, best, examples))
    tied[best] = True
    values = m.values[tied]
    places: list[dict[str, Any]] = []
    for at in np.argwhere(tied):
        labels = {dim: m.coords[dim][int(i)] for dim, i in zip(m.dims, at, strict=True)}
        places.append({dim: label.item() if isinstance(label, np.generic) else label for dim, label in labels.items()})
    reach = float(values.max() if which == "least" else values.min())
    return Extreme(which=which, places=tuple(places), value=float(m.values[best]), reach=reach, n=int(known.sum()))


def _apart(
    m: Measurement, sign: float, best: tuple[Any, ...], examples: Measurement | None
) -> Bool[np.ndarray, "*place"]:
    """Which places lie beyond the extreme one: above the least, below the most."""
    units = m.each
    if units is None and examples is not None and set(examples.dims) == {*m.dims, "example"}:
        units = examples.values.transpose([examples.dims.index(dim) for dim in (*m.dims, "example")])
    if units is not None and units.shape[-1] > 1:
        low, _ = interval(sign * (units - units[best]), f"difference in {m.units}")
        return np.asarray(low > 0)
    if m.low is None or m.high is None:
        return np.asarray(~np.isclose(m.values, m.values[best], rtol=1e-9, atol=1e-12))
    near, far = (m.low, m.high) if sign > 0 else (-m.high, -m.low)
    return np.asarray(near > far[best])


def largest_difference(difference: Measurement) -> tuple[Extreme | None, int | None]:
    """Where a difference is farthest from 0, and at how many places its interval excludes 0.

    The first is None where there is no value, the second where there is no interval.
    """
    low, high, sizes = difference.low, difference.high, replace(difference, values=np.abs(difference.values))
    if low is None or high is None:
        return extreme(sizes, "most"), None
    far, least = np.maximum(np.abs(low), np.abs(high)), np.minimum(np.abs(low), np.abs(high))
    sizes = replace(sizes, low=np.where(low * high > 0, least, 0.0), high=far, each=None)
    return extreme(sizes, "most"), None if np.isnan(low).all() else int(((low > 0) | (high < 0)).sum())


def half_way(m: Measurement, dim: str, index: tuple[Any, ...]) -> tuple[Any, Any] | None:
    """The labels of a dim between which half of a change came first, at one place of the other dims.

    None where the last interval holds the first value, so that there may be no change, or there are fewer than three
    labels.
    """
    labels = m.coords[dim]
    curve = [float(m.select(**{dim: label}).values[index]) for label in labels]
    last, began, ended = m.select(**{dim: labels[-1]}), curve[0], curve[-1]
    if len(labels) < 3 or last.low is None or last.high is None or last.low[index] <= began <= last.high[index]:
        return None
    for (before, _), (label, value) in pairwise(zip(labels, curve, strict=True)):
        if abs(value - began) >= abs(ended - began) / 2 and (value > began) == (ended > began):
            return before, label
    return None


@dataclass(frozen=True)
class Rise:
    """Where a curve rose most.

    Attributes:
        start, end: the steps of the two successive evaluations that it lies between.
        before, after: the values there.
    """

    start: int
    end: int
    before: float
    after: float


def steepest_rise(curve: Measurement, *, least: float = LEAST_RISE) -> Rise | None:
    """The two successive points of a curve between which it rises most per training step; the first of equals.

    This is arithmetic, not a test: the steepest place of a curve that rises evenly is nothing special, what happened
    between two evaluations is not known, and before the first none was made. On a logarithmic axis another place may
    look steeper.

    Args:
        curve: the single dim `step`, such as the accuracy of `learning_curves`.
        least: a smaller rise between two points is passed over, however steep.

    Returns None if no two points rise by that much.
    """
    assert curve.dims == ("step",), f"a curve has the single dim step, not {curve.dims}"
    steps, values = list(curve.coords["step"]), curve.values.tolist()
    pairs = zip(steps, steps[1:], values, values[1:], strict=False)
    rises = [Rise(*pair) for pair in pairs if pair[3] - pair[2] >= least]
    return max(rises, key=lambda rise: (rise.after - rise.before) / (rise.end - rise.start), default=None)
