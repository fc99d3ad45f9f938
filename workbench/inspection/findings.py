"""What was found of a run, or of several seeds, from its measurements: `judgement.findings`, filled in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.inspection.judged import beside_controls, judged_claims
from workbench.inspection.result import Inspected
from workbench.inspection.seed_groups import SeedGroup
from workbench.interventions import REMOVED, head_in_words
from workbench.judgement import entropy
from workbench.judgement.extremes import extreme
from workbench.judgement.findings import Answers, Findings, Focus, GoldMass, Sample, Share
from workbench.judgement.rule import Against
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.groups import conditions_as_groups
from workbench.util.seeds import generator

TRAINED = 512  # sequences drawn as in training, to see how long they are


def findings(one: SeedGroup) -> Findings:
    """What was found of a single run, or of several seeds of one config."""
    return Findings(
        name=one.name,
        samples=tuple(_sample(member) for member in one.members),
        answers=_answers(one),
        claims=tuple(judged_claims(one)),
        gold=_gold(one),
        spread=_spread(one),
        focus=focus(one.members[0]) if one.alone else None,
    )


def _share(m: Measurement) -> Share:
    ends = {end: float("nan") if (at := getattr(m, end)) is None else float(at) for end in ("low", "high")}
    return Share(value=float(m.values), n=0 if m.n is None else int(m.n), **ends)


def _sample(one: Inspected) -> Sample:
    """What a run was measured on; the spread of its test conditions, and what that was in training if it is less."""
    sample = one.sample
    counts = {"drawn": sample.drawn, "distinct": len(sample), "kind": sample.kind}
    groups, names = conditions_as_groups(sample.conditions), {key for each in sample.conditions for key in each}
    if groups is None:
        return Sample(**counts)
    spread = (groups[0], min(groups[1]), max(groups[1]))
    if len(names) > 1 or not one.run.config.steps:
        return Sample(**counts, spread=spread)
    (name,), task = names, one.run.task()
    trained = task.truth(task.sample(TRAINED, generator(0, "trained on"), split="train").tokens).labels.get(name)
    if trained is None:
        return Sample(**counts, spread=spread)
    least, most = int(trained[trained >= 0].min()), int(trained.max())
    beyond = any(not least <= condition[name] <= most for condition in sample.conditions)
    return Sample(**counts, spread=spread, trained=(least, most) if beyond else None)


def _answers(one: SeedGroup) -> Answers | None:
    if "overall" not in one:
        return None
    position, sequence = (_share(one["overall"].mean.select(unit=unit)) for unit in ("position", "sequence"))
    by_group = one["accuracy"].mean if "accuracy" in one else None
    if by_group is None or len(by_group.dims) != 1 or (worst := extreme(by_group, "least")) is None or worst.anywhere:
        return Answers(position=position, sequence=sequence)
    labels = [
        label
        for label, value in zip(by_group.coords[by_group.dims[0]], by_group.values, strict=True)
        if not np.isnan(value)
    ]
    counted = all(isinstance(label, int) for label in labels)
    groups = f"{min(labels)} to {max(labels)}" if counted else f"{len(labels)}"
    return Answers(position=position, sequence=sequence, worst=worst, groups=groups)


def _spread(one: SeedGroup) -> entropy.Spread | None:
    """How far representations spread along the layers, beside re-initialised models."""
    if "entropy" not in one or one["entropy"].mean.dims != ("layer",):
        return None
    result = one["entropy"]
    return entropy.judge(result.mean, result.examples, result.control_draws.get(UNTRAINED))


def _gold(one: SeedGroup) -> GoldMass | None:
    """How much of its mass the head in focus lays on the task's true edges, beside those of other examples."""
    heads = [member.head for member in one.members]
    if "gold_mass" not in one or None in heads:
        return None
    result = one["gold_mass"].at_head()
    control = next((one for one in beside_controls(result) if one.against == "mismatched"), None)
    return GoldMass(heads=tuple(head for head in heads if head), mass=_share(result.mean), control=control)


def focus(one: Inspected) -> Focus | None:
    """The head in focus and what removing it costs; None where nothing shows which head to choose."""
    if one.head is None:
        return None
    no_more: tuple[str, ...] = ()
    if "gold_mass" in one:
        beside = beside_controls(one["gold_mass"])
        no_more = tuple(control.against for control in beside if control.result is not Against.BEYOND)
    removed: Sequence[tuple[tuple[int, int], Share]] = ()
    if one.fallen is not None and not np.isnan(one.fallen.values).all():
        removed = [
            (head, _share(one.fallen.select(**{REMOVED: label})))
            for head in one.removed
            if (label := head_in_words(*head)) in one.fallen.coords[REMOVED]
        ]
    return Focus(head=one.head, no_more_than=no_more, removed=tuple(removed), needed=one.needed_head)
