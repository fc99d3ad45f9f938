"""Whether a contrast of groups of seeds holds: what was decided, from which numbers and by which rule, as fields.

Seeds are what is counted. Where a quantity is a share, a seed may solve its task and the next one fail, however alike
those seen are; so the interval of a mean, and of a difference of two, leaves room for seeds that were not seen
(`intervals.bounded`; how often it covers is tabled in `docs/concepts/controls.md`). Beside it stands how many of the
seeds reach a value, and the exact interval of that share of seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from workbench.judgement.against_controls import Stored
from workbench.measurement import Measurement, intervals
from workbench.measurement.compare_runs import difference_interval

FEWEST_SEEDS = 3  # on either side, before anything is said to hold or not
RIGHT = 0.01  # of the answers, at least, of one of two groups that are to be compared
LAST_PART = 0.2  # of the training steps, over which a curve is said to rise or to be flat
RISES = 0.02  # of a curve over that part: a group whose mean rises by so much was stopped on the way
PLATEAU = 0.03  # of a share: where all seeds of both groups lie within so much and none rises, nothing tells them apart
SOLVED = 0.95  # of a share: seeds that lie together above it have learnt the task
PART = 0.5  # of a published difference: one that is smaller, with its whole interval, is not that difference


class Verdict(StrEnum):
    """Whether something holds."""

    HOLDS = "holds"
    FAILS = "does not hold"
    NOTHING_LEARNT = "nothing learnt that could differ"
    STOPPED = "stopped on the way"
    OPEN = "not settled"


class ContrastKind(StrEnum):
    """What a contrast asks of its groups."""

    HIGHER = "one mean above another"
    REACHES = "every seed reaches a value"
    STAYS_BELOW = "no seed reaches a value"
    NEAR = "a mean near a value"


class Rule(StrEnum):
    """By which rule a verdict was given."""

    INTERVAL = "where the interval lies"
    SEEDS = "how many seeds reach it"
    EXAMPLES = "the mean over examples"
    TOO_FEW = "too few seeds"
    NO_SPREAD = "equal seeds, which leave no interval"
    NEVER_RIGHT = "no group is right often enough"
    PLATEAU = "all seeds on one plateau"
    RISING = "a curve that still rises"
    SMALLER = "less than half of what was published"


class ContrastQuestion(Stored):
    """What is asked.

    Attributes:
        kind: the question.
        quantity: what it is about.
        value: the margin, or the value to be reached or to be near.
        within: how near.
        published: the difference that was published of these groups at these places; None where none was.
    """

    kind: ContrastKind
    quantity: str
    value: float = 0.0
    within: float = 0.0
    published: float | None = None


class Group(Stored):
    """What a contrast knows of one of its groups.

    Attributes:
        name: the group's.
        at: dim -> coordinate, where the quantity has dims.
        settings: those chosen for it, where it was tuned and others than those planned were the best.
        units: of its numbers.
        value, low, high: the mean and its 95 % interval; None where it is not known.
        n: the seeds; of a study without runs, the examples.
        each: every seed's value; None where examples are counted, or the values were not kept.
        rise: by how much its learning curve rose over the last fifth of its training, the mean over seeds; None where
            none was kept. It is the curve of what is asked for, or where none of that was kept, of accuracy.
        of_itself: whether it is the former.
    """

    name: str
    at: dict[str, Any] = Field(default_factory=dict)
    settings: str = ""
    units: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 1
    each: tuple[float, ...] | None = None
    rise: float | None = None
    of_itself: bool = False

    @classmethod
    def of(
        cls,
        mean: Measurement,
        name: str,
        at: Mapping[str, Any],
        settings: str = "",
        curve: Measurement | None = None,
        *,
        of_itself: bool = False,
    ) -> Group:
        """A group from a single mean over seeds, or over examples, and its curve over training, a share."""
        each = None if mean.each is None else tuple(mean.each[~np.isnan(mean.each)].tolist())
        n = len(each) if each is not None else 1 if mean.n is None else int(mean.n)
        ends = {"low": _known(mean.low), "high": _known(mean.high)}
        about = {"name": name, "at": dict(at), "settings": settings, "units": mean.units}
        rise = None
        if curve is not None:
            steps = list(curve.coords["step"])
            before = [place for place, step in enumerate(steps) if step <= (1 - LAST_PART) * steps[-1]]
            rise = _known(curve.values[-1] - curve.values[before[-1]]) if before else None
        return cls(**about, value=_known(mean.values), **ends, n=n, each=each, rise=rise, of_itself=of_itself)


class Outcome(Stored):
    """A contrast, decided.

    Attributes:
        verdict: whether it holds.
        rule: what decided; None of a result of an earlier version.
        value, low, high: the difference, or the mean, and its 95 % interval; None where it is not known.
        asked: what was asked; None of a result of an earlier version, which kept only a sentence.
        groups: those that it is about, the one that is claimed to be higher first.
        reached: how many seeds reach the value that is asked for; None where nothing is to be reached.
        share: the exact 95 % interval (Clopper and Pearson's) of the share of all seeds that reach it.
    """

    verdict: Verdict
    rule: Rule | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    asked: ContrastQuestion | None = None
    groups: tuple[Group, ...] = ()
    reached: int | None = None
    share: tuple[float, float] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_an_earlier_version(cls, data: Any) -> Any:
        """Results used to keep a sentence, which is not read, and the number of seeds of groups without a name."""
        if not isinstance(data, Mapping) or "words" not in data:
            return data
        numbers = {name: data[name] for name in ("verdict", "value", "low", "high")}
        return {**numbers, "groups": [{"name": "", "n": n} for n in data["n"]]}

    def rising(self, group: Group) -> bool:
        """Whether a group's curve still rose at the end; if a value is asked for, so as to be there in twice the steps.

        How far another curve than that of what is asked still was from anything is not known.
        """
        if group.rise is None or group.rise < RISES:
            return False
        if (
            self.asked is None
            or self.asked.kind not in (ContrastKind.REACHES, ContrastKind.STAYS_BELOW)
            or not group.of_itself
        ):
            return True
        return group.value is None or group.value + group.rise / LAST_PART >= self.asked.value

    @property
    def apart(self) -> bool:
        """Whether every seed of the first group lies above every seed of the second."""
        if len(self.groups) != 2 or self.groups[0].each is None or self.groups[1].each is None:
            return False
        return min(self.groups[0].each, default=-math.inf) > max(self.groups[1].each, default=math.inf)


def decide(asked: ContrastQuestion, groups: Sequence[Group]) -> Outcome:
    """The outcome of a contrast from what is known of its groups.

    A difference, or a mean, holds where its whole 95 % interval lies on the side that is claimed, and does not hold
    where all of it lies on the other. What every seed should reach holds where every seed does, and does not hold
    where none does; what none should reach, the other way round. Where neither is so, or no seed reaches the value,
    and the curve of a group still rose at the end, training was stopped on the way. Otherwise nothing was learnt
    that could differ where no group is right, or all seeds lie on one plateau. A difference does not hold either where
    no curve rises and its whole interval lies below half of what was published. Else it is not settled.
    """
    if asked.kind is ContrastKind.HIGHER:
        outcome = _higher(asked, *groups)
    else:
        outcome = _near(asked, *groups) if asked.kind is ContrastKind.NEAR else _reaches(asked, *groups)
    rises = [group.rise for group in outcome.groups]
    settled = outcome.verdict is not Verdict.OPEN and (outcome.rule is not Rule.SEEDS or outcome.reached)
    if settled or outcome.rule is Rule.TOO_FEW or any(rise is None for rise in rises):
        return outcome
    if any(map(outcome.rising, outcome.groups)):
        return outcome.model_copy(update={"verdict": Verdict.STOPPED, "rule": Rule.RISING})
    each = [value for group in outcome.groups for value in group.each or ()]
    together = len(outcome.groups) == 2 and outcome.groups[0].units == "share" and max(each) - min(each) <= PLATEAU
    if together and outcome.verdict is Verdict.OPEN and max(each) < SOLVED:
        return outcome.model_copy(update={"verdict": Verdict.NOTHING_LEARNT, "rule": Rule.PLATEAU})
    claimed = max(asked.published or 0.0, 0.0)
    if outcome.verdict is Verdict.OPEN and outcome.high is not None and outcome.high < PART * claimed:
        return outcome.model_copy(update={"verdict": Verdict.FAILS, "rule": Rule.SMALLER})
    return outcome


def together(outcomes: Sequence[Outcome]) -> Verdict:
    """The verdict on a study: it holds where every contrast does, and fails where any does."""
    verdicts = {outcome.verdict for outcome in outcomes}
    order = (Verdict.FAILS, Verdict.OPEN, Verdict.STOPPED, Verdict.NOTHING_LEARNT)
    return next((verdict for verdict in order if verdict in verdicts), Verdict.HOLDS if verdicts else Verdict.OPEN)


def _higher(asked: ContrastQuestion, ours: Group, theirs: Group) -> Outcome:
    value = None if ours.value is None or theirs.value is None else ours.value - theirs.value
    low, high = None, None
    if ours.each is not None and theirs.each is not None and min(ours.n, theirs.n) >= intervals.FEWEST:
        each = np.array(theirs.each), np.array(ours.each)
        first, second = ((np.asarray(group.low), np.asarray(group.high)) for group in (theirs, ours))
        low, high = map(_known, difference_interval(ours.units, each, first, second))
    rule = Rule.INTERVAL
    if min(ours.n, theirs.n) < FEWEST_SEEDS:
        verdict, rule = Verdict.OPEN, Rule.TOO_FEW
    elif low is None or high is None:
        verdict, rule = Verdict.OPEN, Rule.NO_SPREAD
    else:
        verdict = _side(low > asked.value, high < asked.value)
        if verdict is Verdict.OPEN and ours.units == "share" and max(ours.value or 0, theirs.value or 0) < RIGHT:
            verdict, rule = Verdict.NOTHING_LEARNT, Rule.NEVER_RIGHT
    numbers = {"value": value, "low": low, "high": high}
    return Outcome(verdict=verdict, rule=rule, asked=asked, groups=(ours, theirs), **numbers)


def _reaches(asked: ContrastQuestion, group: Group) -> Outcome:
    numbers = {"value": group.value, "low": group.low, "high": group.high}
    if group.each is None:  # examples are counted: no single one can reach a share
        reaches = group.value is not None and group.value >= asked.value
        reached, share, rule = None, None, Rule.EXAMPLES
        all_do, none_does = reaches, not reaches
    else:
        reached, rule = sum(value >= asked.value for value in group.each), Rule.SEEDS
        share = intervals.exact(reached, group.n)
        all_do, none_does = reached == group.n, reached == 0
    if group.n < FEWEST_SEEDS:
        verdict, rule = Verdict.OPEN, Rule.TOO_FEW
    else:
        below = asked.kind is ContrastKind.STAYS_BELOW
        verdict = _side(none_does if below else all_do, all_do if below else none_does)
    return Outcome(verdict=verdict, rule=rule, asked=asked, groups=(group,), reached=reached, share=share, **numbers)


def _near(asked: ContrastQuestion, group: Group) -> Outcome:
    numbers = {"value": group.value, "low": group.low, "high": group.high}
    about = {"asked": asked, "groups": (group,), **numbers}
    if group.n < FEWEST_SEEDS or group.value is None:
        return Outcome(verdict=Verdict.OPEN, rule=Rule.TOO_FEW, **about)
    low, high = (group.value if end is None else end for end in (group.low, group.high))
    off = low - asked.value, high - asked.value
    outside = min(map(abs, off)) > asked.within and off[0] * off[1] > 0
    return Outcome(verdict=_side(max(map(abs, off)) <= asked.within, outside), rule=Rule.INTERVAL, **about)


def _side(holds: bool, fails: bool) -> Verdict:
    return Verdict.HOLDS if holds else Verdict.FAILS if fails else Verdict.OPEN


def _known(number: Any) -> float | None:
    """A number; None where it is none."""
    return None if number is None or np.isnan(number) else float(number)
