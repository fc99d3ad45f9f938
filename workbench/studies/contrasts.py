"""Contrasts: what must hold of the means over seeds for a study's answer to be yes, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

import numpy as np

from workbench.measurement import Measurement, compare_runs
from workbench.measurement.places import place_in_words
from workbench.util.lookup import lookup

FEWEST_SEEDS = 3  # on either side, before anything is said to hold or not
TOO_FEW = 0.01  # right, to compare two groups by
ONE = {"tokens": "token", "steps": "step", "nats": "nat"}

Means = Mapping[str, Mapping[str, Measurement]]


class Verdict(Enum):
    """Whether something holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "not settled"


@dataclass(frozen=True)
class Outcome:
    """A contrast asked of the runs.

    Attributes:
        verdict: whether it holds.
        value, low, high: the number it rests on and its 95 % interval over seeds.
        n: the seeds of each group in it.
        words: the contrast with its figures, in a sentence.
    """

    verdict: Verdict
    value: float
    low: float
    high: float
    n: tuple[int, ...]
    words: str


class Contrast(Protocol):
    """Something that must hold."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it is about."""

    @property
    def quantity(self) -> str:
        """The quantity that it is about."""

    @property
    def asks(self) -> str:
        """What it asks, in words."""

    def ask(self, means: Means) -> Outcome:
        """Whether it holds. Raises ValueError if a group or quantity is missing."""


@dataclass(frozen=True)
class Higher:
    """One group's mean lies above another's, by more than a margin.

    It holds where the whole 95 % interval of the difference over seeds lies above the margin, and does not hold where
    all of it lies below.

    Attributes:
        quantity: what is compared.
        group, than: the two groups.
        by: the margin, in the quantity's units; if it is negative, being lower by less is enough.
        at: dim -> coordinate, where the quantity has dims.
        than_at: the coordinate of the other group, where it is another one; then the two may be one group.
    """

    quantity: str
    group: str
    than: str
    by: float = 0.0
    at: Mapping[str, Any] = field(default_factory=dict)
    than_at: Mapping[str, Any] | None = None

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group, self.than)

    @property
    def asks(self) -> str:
        return f"is {what_in_words(self.quantity, self.at)} of {self.group} above that of {self._other}?"

    @property
    def _other(self) -> str:
        return self.than if self.than_at is None else f"{self.than}, {place_in_words(self.than_at)}"

    def ask(self, means: Means) -> Outcome:
        ours = _number(means, self.group, self.quantity, self.at)
        theirs = _number(means, self.than, self.quantity, self.at if self.than_at is None else self.than_at)
        n = (_seeds(ours), _seeds(theirs))
        table = compare_runs.compare_over_seeds({self.quantity: theirs}, {self.quantity: ours})
        if table.empty:  # too few seeds for an interval
            value, low, high = float(ours.values - theirs.values), np.nan, np.nan
        else:
            value, low, high = (float(table.iloc[0][column]) for column in ("difference", "low", "high"))
        verdict = _verdict(low > self.by, high < self.by, n)
        margin = f" by more than {number_in_words(self.by, ours.units)}" if self.by > 0 else ""
        if self.by < 0:
            margin = f", or at most {number_in_words(-self.by, ours.units)} below"
        what, above = what_in_words(self.quantity, self.at), f"above {self._other} ({_mean(theirs)}){margin}"
        difference = _interval(value, low, high, ours.units)
        words = f"{what}: {self.group} ({_mean(ours)}) {above}; difference {difference}"
        if np.isnan(low) and min(n) >= FEWEST_SEEDS:  # a spread of nothing is not known
            alike = " and ".join(name for name, one in ((self.group, ours), (self._other, theirs)) if _all_alike(one))
            words += f"; all seeds of {alike} are equal, which leaves no interval"
        if verdict is Verdict.OPEN and ours.units == "share" and max(ours.values, theirs.values) < TOO_FEW:
            words += f"; neither reaches {number_in_words(TOO_FEW, ours.units)}, so nothing can be compared"
        return Outcome(verdict, value, low, high, n, words)


@dataclass(frozen=True)
class Reaches:
    """Every seed of a group reaches a value.

    It holds where every seed does, does not hold where none does, and is not settled where some do.

    Attributes:
        quantity, group, at: as of `Higher`.
        value: what is to be reached.
    """

    quantity: str
    group: str
    value: float
    at: Mapping[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,)

    @property
    def asks(self) -> str:
        return f"does {what_in_words(self.quantity, self.at)} of {self.group} reach {self.value:g}?"

    def ask(self, means: Means) -> Outcome:
        mean = _number(means, self.group, self.quantity, self.at)
        low, high = (float("nan") if end is None else float(end) for end in (mean.low, mean.high))
        n, value = _seeds(mean), float(mean.values)
        shown, wanted = _interval(value, low, high, mean.units), number_in_words(self.value, mean.units)
        if mean.each is None:  # examples are counted: no single one can reach a share
            reached = n if value >= self.value else 0
            said = f"{self.group}, {shown} over {n} sequences, against {wanted}"
        else:
            reached = int((mean.each >= self.value).sum())
            said = f"all seeds of {self.group} should reach {wanted}: {reached} of {n} do; mean {shown}"
        words = f"{what_in_words(self.quantity, self.at)}: {said}"
        return Outcome(_verdict(reached == n, reached == 0, (n,)), value, low, high, (n,), words)


@dataclass(frozen=True)
class StaysBelow:
    """No seed of a group reaches a value: `Reaches` the other way round."""

    quantity: str
    group: str
    value: float
    at: Mapping[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,)

    @property
    def asks(self) -> str:
        return f"does {what_in_words(self.quantity, self.at)} of {self.group} stay below {self.value:g}?"

    def ask(self, means: Means) -> Outcome:
        asked = Reaches(self.quantity, self.group, self.value, self.at).ask(means)
        turned = {Verdict.HOLDS: Verdict.FAILS, Verdict.FAILS: Verdict.HOLDS, Verdict.OPEN: Verdict.OPEN}
        words = asked.words.replace("all seeds of", "no seed of", 1)
        return replace(asked, verdict=turned[asked.verdict], words=words)


@dataclass(frozen=True)
class Near:
    """A group's mean lies within a distance of a value.

    It holds where the whole 95 % interval does, and does not hold where none of it does.

    Attributes:
        quantity, group, at: as of `Higher`.
        value, within: what it is to be near, and how near.
    """

    quantity: str
    group: str
    value: float
    within: float
    at: Mapping[str, Any] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,)

    @property
    def asks(self) -> str:
        return f"is {what_in_words(self.quantity, self.at)} of {self.group} within {self.within:g} of {self.value:g}?"

    def ask(self, means: Means) -> Outcome:
        mean = _number(means, self.group, self.quantity, self.at)
        value, n = float(mean.values), _seeds(mean)
        low, high = (value if end is None or np.isnan(end) else float(end) for end in (mean.low, mean.high))
        away = abs(low - self.value), abs(high - self.value)
        outside = min(away) > self.within and (low - self.value) * (high - self.value) > 0
        wanted = f"within {number_in_words(self.within, mean.units)} of {number_in_words(self.value, mean.units)}"
        what = what_in_words(self.quantity, self.at)
        words = f"{what}: {self.group}, {_interval(value, low, high, mean.units)}, {wanted}"
        return Outcome(_verdict(max(away) <= self.within, outside, (n,)), value, low, high, (n,), words)


def together(outcomes: list[Outcome]) -> Verdict:
    """The verdict on a study: it holds where every contrast does, and fails where any does."""
    verdicts = {outcome.verdict for outcome in outcomes}
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    return Verdict.HOLDS if verdicts == {Verdict.HOLDS} else Verdict.OPEN


def _verdict(holds: bool, fails: bool, n: tuple[int, ...]) -> Verdict:
    if min(n) < FEWEST_SEEDS:
        return Verdict.OPEN
    return Verdict.HOLDS if holds else Verdict.FAILS if fails else Verdict.OPEN


def _number(means: Means, group: str, quantity: str, at: Mapping[str, Any]) -> Measurement:
    """A single mean over seeds."""
    mean = lookup(lookup(means, group, "group"), quantity, f"quantity of {group}").select(**at)
    if mean.dims:
        raise ValueError(
            f"{quantity} has the dims {', '.join(mean.dims)}: say at which coordinates to compare, in `at`"
        )
    return mean


def _seeds(mean: Measurement) -> int:
    """How many seeds are in a mean; of a study without runs, how many examples."""
    if mean.each is None:
        return 1 if mean.n is None else int(mean.n)
    return int((~np.isnan(mean.each)).sum())


def _all_alike(mean: Measurement) -> bool:
    """Whether all seeds of a mean have the same value."""
    return mean.each is not None and np.ptp(mean.each[~np.isnan(mean.each)]) == 0


def what_in_words(quantity: str, at: Mapping[str, Any]) -> str:
    """A quantity and where it is read: "accuracy, length 18"."""
    return f"{quantity}, {place_in_words(at)}" if at else quantity


def _mean(mean: Measurement) -> str:
    return number_in_words(float(mean.values), mean.units)


def _interval(value: float, low: float, high: float, units: str) -> str:
    end = "" if np.isnan(low) else f" [{number_in_words(low, units)}, {number_in_words(high, units)}]"
    return f"{number_in_words(value, units)}{end}"


def number_in_words(value: float, units: str) -> str:
    """A number in its units; a share in per cent."""
    if units == "share":
        return f"{100 * value:.1f} %"
    number = f"{value:,.4g}"
    return f"{number} {ONE.get(units, units) if number == '1' else units}".strip()
