"""A stored result judged anew from its numbers: no run has to be made again when a rule or a word changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.judgement.tuning import AS_PLANNED, Tried, Tuning
from workbench.judgement.verdict import FEWEST_SEEDS, ContrastKind, Group, Outcome, Rule, Verdict
from workbench.judgement.words.studies import what
from workbench.measurement import intervals
from workbench.measurement.measurement import interval
from workbench.measurement.units import scale_of
from workbench.studies.contrasts import Contrast, Means
from workbench.studies.result import Result
from workbench.studies.study import Study


def judged_anew(result: Result, study: Study) -> Result:
    """A result with its intervals, outcomes and verdict by the rules of now, and its study's words as they are now."""
    groups = {group: dict(own) for group, own in result.groups.items()}
    for group, own in result.groups.items():
        for name, mean in own.items():
            if mean.each is not None and scale_of(mean.units).outcomes:
                low, high = interval(mean.each, mean.units, seeds=True)
                groups[group][name] = replace(mean, low=low, high=high)
    contrasts = study.asked(result.scale)
    outcomes = list(result.outcomes)
    of_stored_numbers = not result.tried or any(one.asked is None for one in outcomes)
    if of_stored_numbers and len(contrasts) == len(outcomes):
        outcomes = [
            _asked_anew(contrast, outcome, groups, result.tried)
            for contrast, outcome in zip(contrasts, outcomes, strict=True)
        ]
    tuning = result.tuning
    if tuning is None:  # an earlier version tuned the groups of the contrasts that failed
        of_earlier = Tuning.ON_FAILURE if result.tried else Tuning.NEVER
        tuning = of_earlier if study.tune and study.runs else Tuning.PLANNED
    differs = [replace(each, why=study.reason(each.setting, result.scale)) for each in result.differs]
    return replace(
        result,
        groups=groups,
        outcomes=outcomes,
        tuning=tuning,
        question=study.question,
        note=study.note,
        differs=differs,
    )


def _asked_anew(contrast: Contrast, earlier: Outcome, groups: Means, tried: Sequence[Tried]) -> Outcome:
    """The outcome from the stored numbers; where it was of tuned groups, whose numbers were not kept, as it was."""
    settings = {}
    for one in tried:
        if one.chosen != AS_PLANNED and any(
            (group, what(contrast.asked.quantity, at)) == (one.group, one.quantity) for group, at in contrast.places
        ):
            settings[one.group] = one.alone(one.chosen)
    try:
        outcome = contrast.ask(groups)
    except ValueError:  # the study asks for other groups or quantities by now
        return earlier
    if not settings:
        return outcome
    # What is known of a contrast that an earlier version asked of tuned groups, of which it kept the verdict.
    asked = outcome.asked
    assert asked is not None
    known = [
        Group(name=group.name, at=group.at, settings=settings[group.name], units=group.units, n=n.n)
        if group.name in settings
        else group
        for group, n in zip(outcome.groups, earlier.groups, strict=True)
    ]
    about = {"asked": asked, "verdict": earlier.verdict, "value": earlier.value}
    if asked.kind is ContrastKind.HIGHER:
        shares = scale_of(known[0].units).outcomes  # of which the interval was too narrow
        ends = {} if shares else {"low": earlier.low, "high": earlier.high}
        verdict = Verdict.OPEN if shares and earlier.verdict is Verdict.HOLDS else earlier.verdict
        return Outcome(**about | {"verdict": verdict}, rule=Rule.INTERVAL, groups=tuple(known), **ends)
    own = known[0].model_copy(update={"value": earlier.value})
    if earlier.verdict is Verdict.OPEN or own.n < FEWEST_SEEDS:
        return Outcome(**about, rule=Rule.SEEDS, groups=(own,))
    all_do = (earlier.verdict is Verdict.HOLDS) == (asked.kind is ContrastKind.REACHES)
    reached = own.n if all_do else 0
    return Outcome(**about, rule=Rule.SEEDS, groups=(own,), reached=reached, share=intervals.exact(reached, own.n))
