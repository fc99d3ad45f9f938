"""What was found of a run, or of several seeds, from its measurements: `judgement.findings`, filled in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.inspection.judged import beside_controls, judged_claims
from workbench.inspection.result import Inspected
from workbench.inspection.seed_groups import SeedGroup
from workbench.interventions import REMOVED, head_in_words
from workbench.judgement import entropy
from workbench.judgement.against_controls import Against
from workbench.judgement.extremes import extreme
from workbench.judgement.findings import AnswerRates, Findings, Focus, GoldMass, MeasuredOn, Share
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.groups import conditions_as_groups
from workbench.util.seeds import generator

TRAINED = 512  # sequences drawn as in training, to see how long they are


def findings(group: SeedGroup) -> Findings:
    """What was found of a single run, or of several seeds of one config."""
    gold, heads = None, tuple(member.head for member in group.members if member.head is not None)
    if "gold_mass" in group and len(heads) == len(group.members):
        result = group["gold_mass"].at_head()
        control = next((each for each in beside_controls(result) if each.against == "mismatched"), None)
        gold = GoldMass(heads=heads, mass=share_of(result.mean), control=control)
    spread = None
    if "entropy" in group and (result := group["entropy"]).mean.dims == ("layer",):
        spread = entropy.judge(result.mean, result.examples, result.control_draws.get(UNTRAINED))
    return Findings(
        name=group.name,
        samples=tuple(measured_on(member) for member in group.members),
        answers=_answers(group),
        claims=tuple(judged_claims(group)),
        gold=gold,
        spread=spread,
        focus=focus(group.members[0]) if group.alone else None,
    )


def share_of(m: Measurement) -> Share:
    """A single number of a measurement with its interval; NaN of what is not known."""
    ends = {end: float("nan") if (at := getattr(m, end)) is None else float(at) for end in ("low", "high")}
    return Share(value=float(m.values), n=0 if m.n is None else int(m.n), **ends)


def measured_on(inspected: Inspected) -> MeasuredOn:
    """What a run was measured on; the spread of its test conditions, and what that was in training if it is less."""
    sample = inspected.sample
    counts = {"drawn": sample.drawn, "distinct": len(sample), "kind": sample.kind}
    groups, names = conditions_as_groups(sample.conditions), {key for each in sample.conditions for key in each}
    if groups is None:
        return MeasuredOn(**counts)
    spread = (groups[0], min(groups[1]), max(groups[1]))
    if len(names) > 1 or not inspected.run.config.steps:
        return MeasuredOn(**counts, spread=spread)
    (name,), task = names, inspected.run.task()
    trained = task.truth(task.sample(TRAINED, generator(0, "trained on"), split="train").tokens).labels.get(name)
    if trained is None:
        return MeasuredOn(**counts, spread=spread)
    least, most = int(trained[trained >= 0].min()), int(trained.max())
    beyond = any(not least <= condition[name] <= most for condition in sample.conditions)
    return MeasuredOn(**counts, spread=spread, trained=(least, most) if beyond else None)


def _answers(group: SeedGroup) -> AnswerRates | None:
    if "overall" not in group:
        return None
    overall, text = group["overall"].mean, group.members[0].run.task().running_text
    position = share_of(overall.select(unit="position"))
    sequence = None if text else share_of(overall.select(unit="sequence"))
    by_group = group["accuracy"].mean if "accuracy" in group else None
    if by_group is None or len(by_group.dims) != 1 or (worst := extreme(by_group, "least")) is None or worst.anywhere:
        return AnswerRates(position=position, sequence=sequence)
    labels = [
        label
        for label, value in zip(by_group.coords[by_group.dims[0]], by_group.values, strict=True)
        if not np.isnan(value)
    ]
    counted = all(isinstance(label, int) for label in labels)
    groups = f"{min(labels)} to {max(labels)}" if counted else f"{len(labels)}"
    return AnswerRates(position=position, sequence=sequence, worst=worst, groups=groups)


def focus(inspected: Inspected) -> Focus | None:
    """The head in focus and what removing it costs; None where nothing shows which head to choose."""
    if inspected.head is None:
        return None
    no_more: tuple[str, ...] = ()
    if "gold_mass" in inspected:
        beside = beside_controls(inspected["gold_mass"])
        no_more = tuple(control.against for control in beside if control.result is not Against.BEYOND)
    removed: Sequence[tuple[tuple[int, int], Share]] = ()
    if inspected.fallen is not None and not np.isnan(inspected.fallen.values).all():
        removed = [
            (head, share_of(inspected.fallen.select(**{REMOVED: label})))
            for head in inspected.removed
            if (label := head_in_words(*head)) in inspected.fallen.coords[REMOVED]
        ]
    return Focus(head=inspected.head, no_more_than=no_more, removed=tuple(removed), needed=inspected.needed_head)
