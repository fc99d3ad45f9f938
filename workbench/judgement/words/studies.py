"""Sentences about studies: what a contrast asks, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.judgement.tuning import Tried
from workbench.judgement.verdict import (
    LAST_PART,
    PLATEAU,
    RIGHT,
    RISES,
    ContrastKind,
    ContrastQuestion,
    Group,
    Outcome,
    Rule,
    Verdict,
)
from workbench.measurement.numbers import counted, difference, number, percent, percents, with_interval
from workbench.measurement.places import place_in_words

Places = Sequence[tuple[str, Mapping[str, Any]]]


def what(quantity: str, at: Mapping[str, Any]) -> str:
    """A quantity and where it is read: `accuracy, length 18`."""
    return f"{quantity}, {place_in_words(at)}" if at else quantity


def question(asked: ContrastQuestion, places: Places) -> str:
    """What a contrast asks of its groups, each with its place."""
    group, at = places[0]
    named = f"{what(asked.quantity, at)} of {group}"
    match asked.kind:
        case ContrastKind.HIGHER:
            other, other_place = places[1]
            return f"is {named} above that of {other if other_place == at else what(other, other_place)}?"
        case ContrastKind.REACHES:
            return f"does {named} reach {asked.value:g}?"
        case ContrastKind.STAYS_BELOW:
            return f"does {named} stay below {asked.value:g}?"
        case ContrastKind.NEAR:
            return f"is {named} within {asked.within:g} of {asked.value:g}?"


def sentence(outcome: Outcome) -> str:
    """What came of a contrast: how much, against what, from how many, and why it is not settled where that is known."""
    if outcome.asked is None:
        return "asked by an earlier version, of which no numbers were kept"
    asked, first = outcome.asked, outcome.groups[0]
    tell = {ContrastKind.HIGHER: _higher, ContrastKind.NEAR: _near}.get(asked.kind, _reaches)
    settings = [f"{group.name} with {group.settings}" for group in outcome.groups if group.settings]
    if len(outcome.groups) == 1 and settings:
        settings = [f"with {first.settings}"]
    end = f" ({'; '.join(dict.fromkeys(settings))})" if settings else ""
    rising = [group for group in outcome.groups if group.rise is not None and group.rise >= RISES]
    if rising and (outcome.rule is Rule.RISING or outcome.reached == 0):  # why nothing is settled, or reached
        each = " and ".join(f"that of {group.name} by {difference(group.rise or 0, units='share')}" for group in rising)
        end += f"; over the last {percent(LAST_PART)} of the steps the curve still rose, {each}"
    return f"{what(asked.quantity, first.at)}: {tell(outcome, asked)}{end}"


def _higher(outcome: Outcome, asked: ContrastQuestion) -> str:
    ours, theirs = outcome.groups
    other = theirs.name if theirs.at == ours.at else what(theirs.name, theirs.at)
    text = f"{ours.name} ({_mean(ours)}) against {other} ({_mean(theirs)})"
    if outcome.value is not None:
        text += f": {difference(outcome.value, outcome.low, outcome.high, ours.units)}"
    if asked.value:
        text += f", against a margin of {difference(asked.value, units=ours.units)}"
    if outcome.apart:
        text += "; every seed of the first above every one of the second"
    if outcome.rule is Rule.NO_SPREAD:
        alike = " and ".join(
            name for name, group in ((ours.name, ours), (other, theirs)) if group.each and len({*group.each}) == 1
        )
        text += f"; all seeds of {alike} are equal, which leaves no interval" if alike else "; there is no interval"
    if outcome.rule is Rule.NEVER_RIGHT:
        text += f"; neither reaches {percent(RIGHT)}"
    if outcome.rule is Rule.SMALLER and asked.published is not None:
        text += f"; less than half of the {difference(asked.published, units=ours.units)} that were published"
    if outcome.rule is Rule.PLATEAU:
        text += f"; all seeds lie within {difference(PLATEAU, units='share')[1:]}, and no curve still rises"
    return text


def _mean(group: Group) -> str:
    count = f"{group.n} {'seed' if group.n == 1 else 'seeds'}"
    return count if group.value is None else f"{number(group.value, group.units)}, {count}"


def _reaches(outcome: Outcome, asked: ContrastQuestion) -> str:
    (group,) = outcome.groups
    level = number(asked.value, group.units)
    mean = "" if group.value is None else with_interval(group.value, group.low, group.high, group.units)
    if outcome.rule is Rule.EXAMPLES:
        return f"{group.name} ({mean} over {group.n:,} sequences), against {level}"
    text = f"{counted(outcome.reached or 0, group.n)} seeds of {group.name} reach {level}"
    if outcome.share is not None:
        text += f" (of all such seeds {percents(outcome.share)})"
    return text + (f"; mean {mean}" if mean else "")


def _near(outcome: Outcome, asked: ContrastQuestion) -> str:
    (group,) = outcome.groups
    mean = "–" if group.value is None else with_interval(group.value, group.low, group.high, group.units)
    within = number(asked.within, group.units)
    return f"{group.name} ({mean}), wanted within {within} of {number(asked.value, group.units)}"


def tuned(tried: Tried) -> str:
    """The settings that were tried for a group, each with its mean where that is known, and the best."""
    means = tried.means or (math.nan,) * len(tried.settings)
    each = [
        tried.alone(setting) + ("" if math.isnan(mean) else f" ({number(mean, tried.units)})")
        for setting, mean in zip(tried.settings, means, strict=True)
    ]
    return f"{tried.group}, {tried.quantity}: {'; '.join(each)}. Best: {tried.alone(tried.chosen)}."


def in_short(verdict: Verdict) -> str:
    """A verdict as tables show it: what does not hold stands out."""
    return f"**{verdict}**" if verdict is Verdict.FAILS else str(verdict)
