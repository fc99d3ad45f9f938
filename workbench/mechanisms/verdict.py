"""Verdicts on a claim: whether it holds beyond its controls, and whether the answers need what is claimed.

There are two verdicts at each place where a claim is read (a point, a hop). A claim that holds as often in an untrained
model tells nothing, however often it holds. An edit that changes answers as claimed shows that they depend on what was
edited; where the same edit does the same in untrained models, it tells nothing about this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy import stats

from workbench.measurement import Measurement
from workbench.measurement.draws import DRAW, limit
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.mechanisms.heads import LEAST_LOST


class Holds(Enum):
    """Whether a claim holds more often than under every control, with its words."""

    BEYOND = "holds beyond its controls"
    NO_MORE = "tells nothing: no more than a control"
    UNCONTROLLED = "undecided: no control was measured"
    TOO_FEW = f"undecided: fewer than {LEAST_FOR_A_VERDICT} examples or seeds"


class Needed(Enum):
    """Whether the answers need what is claimed, by the causal test; with its words."""

    AS_CLAIMED = "needed"
    LOST = "needed, though not as claimed"
    AS_ANY = "tells nothing: in models that know nothing the edit does as much"
    NOT_NEEDED = "not needed"
    NOT_TOLD = "undecided whether needed"
    TOO_FEW = f"undecided whether needed: fewer than {LEAST_FOR_A_VERDICT} right answers to edit"
    UNTESTED = "no causal test was made"


@dataclass(frozen=True)
class Control:
    """One control of a claim at one place.

    Attributes:
        null: its name.
        value: how often the claim holds under it.
        low, high: its interval over examples; of models with fresh weights, the range of the draws.
        limit: what the claim's own rate has to exceed.
    """

    null: str
    value: float
    low: float
    high: float
    limit: float


@dataclass(frozen=True)
class Tested:
    """The numbers of a causal test at one place.

    Attributes:
        as_claimed: share of answers that became what the claim predicts of the claimed edit.
        changed: share of answers that the claimed edit changed.
        elsewhere: share of answers that the edit elsewhere changed; NaN where there was none.
        in_nulls: what `as_claimed` of a model with fresh weights hardly exceeds; NaN where too few answers could be
            tested.
        changed_in_nulls: what `changed` of such a model hardly exceeds, likewise.
        n: answers tested.
    """

    as_claimed: float
    changed: float
    elsewhere: float
    in_nulls: float
    changed_in_nulls: float
    n: int


@dataclass(frozen=True)
class Verdict:
    """The verdicts on a claim at one place.

    Attributes:
        place: dim -> label, of where the claim is read; empty where there is one place only.
        holds: whether it holds beyond its controls.
        needed: what the causal test says.
        rate: how often it holds.
        strongest: the control that is hardest to exceed; None without any.
        tested: the causal test's numbers; None where none was made, or too few answers could be tested.
    """

    place: Mapping[str, Any]
    holds: Holds
    needed: Needed
    rate: float
    strongest: Control | None
    tested: Tested | None


def verdicts(
    rate: Measurement,
    controls: Mapping[str, Measurement],
    draws: Measurement | None = None,
    causal: Measurement | None = None,
    causal_draws: Measurement | None = None,
) -> list[Verdict]:
    """A verdict at each place where a claim is read.

    A claim holds where the low end of its interval lies above the limit of every control. The limit is the high end of
    the control's own interval; for models with fresh weights (each of them is in `draws`), it is the value that one
    more such model would hardly exceed (`measurement.draws.limit`).

    Args:
        rate: how often the claim holds, averaged over examples, of the head in focus.
        controls: control -> how often the claim holds under it, with the dims of `rate`.
        draws: each model with fresh weights: the dim `draw`, then those of `rate`.
        causal: the causal test averaged over examples: dims `edit`, `outcome`, and perhaps some of `rate`'s.
        causal_draws: the causal test of each model with fresh weights: the dim `draw` first.
    """
    results = []
    places = [dict(zip(rate.dims, labels, strict=True)) for labels in _labels(rate)]
    for place in places:
        own = rate.select(**place)
        beside = [
            one for null, m in controls.items() if (one := _control(null, m, draws, place, len(places))) is not None
        ]
        strongest = max(beside, key=lambda one: one.limit, default=None)
        test, nulls = (None if m is None else _at(m, place) for m in (causal, causal_draws))
        needed = _needed(test, nulls)
        numbers = None if test is None or needed is Needed.TOO_FEW else _tested(test, nulls)
        results.append(Verdict(place, _holds(own, strongest), needed, float(own.values), strongest, numbers))
    return results


def strongest_control(rate: Measurement, verdicts: Sequence[Verdict]) -> Measurement:
    """The strongest control at each place where a claim is read: its value, low and high; `labels` name it.

    NaN and no name where a place has no control.
    """
    nothing = Control("", *[float("nan")] * 4)
    controls = [nothing if one.strongest is None else one.strongest for one in verdicts]
    columns = {
        key: np.array([getattr(one, key) for one in controls]).reshape(rate.values.shape)
        for key in ("value", "low", "high", "null")
    }
    return replace(
        rate,
        values=columns["value"],
        low=columns["low"],
        high=columns["high"],
        n=None,
        each=None,
        labels=columns["null"],
        caption="At each place the control that is hardest to exceed.",
    )


def _labels(rate: Measurement) -> list[tuple[Any, ...]]:
    return [
        tuple(rate.coords[dim][i] for dim, i in zip(rate.dims, index, strict=True))
        for index in np.ndindex(*rate.values.shape)
    ]


def _control(
    null: str, m: Measurement, draws: Measurement | None, place: Mapping[str, Any], places: int
) -> Control | None:
    """A control's value and limit at one place; None where it has no value there."""
    at = _at(m, place)
    if at is None or np.isnan(at.values):
        return None
    low, high = (float("nan") if end is None else float(end) for end in (at.low, at.high))
    most = high
    if "draws" in m.settings and draws is not None:
        most = limit(draws.select(**place).values, places)
    return Control(null, float(at.values), low, high, float(at.values) if np.isnan(most) else most)


def _holds(own: Measurement, strongest: Control | None) -> Holds:
    if own.low is None or np.isnan(own.low) or own.n is None or own.n < LEAST_FOR_A_VERDICT:
        return Holds.TOO_FEW
    if strongest is None:
        return Holds.UNCONTROLLED
    return Holds.BEYOND if own.low > strongest.limit else Holds.NO_MORE


def _at(m: Measurement, place: Mapping[str, Any]) -> Measurement | None:
    """The measurement at one place, in the dims that it has; None where it does not have the label."""
    where = {dim: label for dim, label in place.items() if dim in m.dims}
    if any(label not in m.coords[dim] for dim, label in where.items()):
        return None
    return m.select(**where)


def _needed(test: Measurement | None, nulls: Measurement | None) -> Needed:
    """The verdict of a causal test at one place.

    Args:
        test: dims `edit`, `outcome`.
        nulls: the same test of models with fresh weights, the dim `draw` first.
    """
    if test is None:
        return Needed.UNTESTED
    claimed = {outcome: test.select(edit="claimed", outcome=outcome) for outcome in ("as claimed", "changed")}
    elsewhere = test.select(edit="elsewhere", outcome="changed")
    n = claimed["changed"].n
    if n is None or n < LEAST_FOR_A_VERDICT:
        return Needed.TOO_FEW
    beyond_nulls = True
    for outcome, needed in (("as claimed", Needed.AS_CLAIMED), ("changed", Needed.LOST)):
        own = claimed[outcome]
        assert own.low is not None and elsewhere.high is not None
        if own.low > max(LEAST_LOST, np.nan_to_num(float(elsewhere.high))):
            if own.low > _limit_of(nulls, outcome):
                return needed
            beyond_nulls = False
    if not beyond_nulls:
        return Needed.AS_ANY
    changed = claimed["changed"]
    assert changed.high is not None
    return Needed.NOT_NEEDED if changed.high < LEAST_LOST else Needed.NOT_TOLD


def _limit_of(nulls: Measurement | None, outcome: str) -> float:
    """The most that the claimed edit does to answers of models with fresh weights; −∞ where too few can be tested.

    Such models have few right answers, and these by chance. So their answers are also counted together, which gives the
    high end of one interval; the larger of the two limits counts.
    """
    if nulls is None:
        return -np.inf
    assert nulls.dims[0] == DRAW
    tested = nulls.select(edit="claimed", outcome=outcome)
    assert tested.n is not None
    limits = [limit(_of_nulls(nulls, outcome))]
    n = int(tested.n.sum())
    if n >= LEAST_FOR_A_VERDICT:
        done = float(np.nansum(tested.values * tested.n))
        limits.append(float(stats.beta.ppf(0.975, done + 0.5, n - done + 0.5)))  # Jeffreys's
    return max((one for one in limits if not np.isnan(one)), default=-np.inf)


def _of_nulls(nulls: Measurement, outcome: str) -> np.ndarray:
    """What the claimed edit does in each model with fresh weights; NaN where too few answers can be tested."""
    tested = nulls.select(edit="claimed", outcome=outcome)
    assert tested.n is not None
    return np.where(tested.n >= LEAST_FOR_A_VERDICT, tested.values, np.nan)


def _tested(test: Measurement, nulls: Measurement | None) -> Tested:
    as_claimed, changed = (test.select(edit="claimed", outcome=outcome) for outcome in ("as claimed", "changed"))
    assert changed.n is not None
    return Tested(
        as_claimed=float(as_claimed.values),
        changed=float(changed.values),
        elsewhere=float(test.select(edit="elsewhere", outcome="changed").values),
        in_nulls=_hardly_exceeded(nulls, "as claimed"),
        changed_in_nulls=_hardly_exceeded(nulls, "changed"),
        n=int(changed.n),
    )


def _hardly_exceeded(nulls: Measurement | None, outcome: str) -> float:
    """The most right answers to which the claimed edit does this in models with fresh weights; NaN if unknown."""
    most = _limit_of(nulls, outcome)
    return min(most, 1.0) if np.isfinite(most) else float("nan")
