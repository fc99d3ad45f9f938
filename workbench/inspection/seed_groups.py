"""Groups of runs that differ in their seed alone: one line in figures, and a column of their own in the table."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from workbench.inspection import CausalResult, ControlResult, Inspected, Result
from workbench.inspection.averages import joined
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import over_seeds
from workbench.measurement.draws import DRAW, over_draws
from workbench.util.lookup import check_told_apart, tell_apart
from workbench.util.messages import brief
from workbench.util.settings import as_text, flat_config

LONGEST_VALUE = 40


@dataclass(frozen=True)
class SeedGroup:
    """A single run, or several seeds of one config: one line of a figure.

    Attributes:
        name: what to call it.
        members: the runs behind it.
        results: as in `Inspected`; of several runs the mean over seeds, with the re-initialised models of all of them.
            A measure of every head is that of each run's head in focus.
    """

    name: str
    members: Sequence[Inspected]
    results: Mapping[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __contains__(self, name: object) -> bool:
        return name in self.results

    @property
    def alone(self) -> bool:
        """Whether it is a single run."""
        return len(self.members) == 1


def seed_groups(inspected: Sequence[Inspected]) -> list[SeedGroup]:
    """One group for each config, under a name of its own: a single run as it is, several seeds as their mean.

    Raises:
        ValueError: if two runs have one name, or names that differ in their case alone.
    """
    check_told_apart([run.name for run in inspected], "runs")
    same: dict[str, list[Inspected]] = {}
    for run in inspected:
        alone = "" if run.run.config.steps else run.name  # what was not trained here has no seed to differ in
        config = json.dumps([run.run.config.without_seed(), alone], sort_keys=True, default=str)
        same.setdefault(config, []).append(run)
    together = [members for members in same.values() if len(members) > 1]
    names = iter(_group_names(together, [run.name for run in inspected]))
    groups = []
    for members in same.values():
        first = members[0]
        if len(members) == 1:
            groups.append(SeedGroup(first.name, members, first.results))
            continue
        known = [key for key in first if not first[key].of_every_head or all(member.head for member in members)]
        results = {key: _over_seeds([at_own_head(member[key]) for member in members], members) for key in known}
        groups.append(SeedGroup(next(names), members, results))
    return groups


def _group_names(groups: Sequence[Sequence[Inspected]], taken: Sequence[str]) -> list[str]:
    """A name for each group of seeds: the start of its runs' names, settings that differ between groups, and how many.

    Settings are named where groups would have one name without: `standard, n_layers 2, 3 seeds`. Those of all configs
    count but what no model comes from (preset, device, workers).

    Args:
        groups: several runs of one config each.
        taken: names of runs, which no group may have.
    """
    starts = [_common_name(members) for members in groups]
    settings = [dict(flat_config(members[0].run.config.without_seed())) for members in groups]
    names = []
    for start, config, members in zip(starts, settings, groups, strict=True):
        rivals = [rival for name, rival in zip(starts, settings, strict=True) if name.casefold() == start.casefold()]
        names.append(", ".join([start, *_differing(config, rivals), f"{len(members)} seeds"]))
    return tell_apart(names, taken)


def _differing(config: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first settings that tell all these configs apart, with this config's values: `n_layers 2`.

    A setting that tells no further configs apart is left out: `d_head`, where it changes with `d_model`. An attention
    variant is called by its name alone; names are full, dotted ones where last parts repeat.
    """
    needed: list[str] = []
    told_apart = 1
    for name in dict.fromkeys(name for rival in rivals for name in rival):
        kinds = len({tuple(as_text(rival.get(key)) for key in (*needed, name)) for rival in rivals})
        if kinds > told_apart:
            needed, told_apart = [*needed, name], kinds
    last_parts, words = [name.split(".")[-1] for name in needed], []
    for name, last in zip(needed, last_parts, strict=True):
        if name in config:
            text, alone = brief(as_text(config[name]), LONGEST_VALUE), last_parts.count(last) == 1
            words.append(text if alone and last == "variant" else f"{last if alone else name} {text}")
    return words


def _common_name(members: Sequence[Inspected]) -> str:
    """The start that the runs' names share, without the seed; else the preset's name, else the first run's."""
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*(member.name for member in members), strict=False))
    start = "".join(column[0] for column in letters).rstrip("0123456789")
    name = re.sub(r"(^|[/\-_. ]+)seeds?[=\-_. ]*$", "", start, flags=re.IGNORECASE).rstrip("/-_. =")
    return name or members[0].run.config.preset or members[0].name


def _over_seeds(results: Sequence[Result], members: Sequence[Inspected]) -> Result:
    """The same result of several runs as one: the mean over runs, with the re-initialised models of all of them."""
    seeds, first = [member.run.config.seed for member in members], results[0]

    def mean(parts: Sequence[Measurement]) -> Measurement:
        return over_seeds(parts, seeds)

    controls = {}
    for control in first.controls:
        if all(control in result.controls for result in results):
            parts = [result.controls[control] for result in results]
            draws = [part.draws for part in parts if part.draws is not None]
            each = Measurement.join(draws, DRAW) if draws else None
            mean_of_parts = mean([part.mean for part in parts]) if each is None else over_draws(each)
            conditions = [condition for part in parts for condition in part.conditions]
            controls[control] = ControlResult(
                joined([part.examples for part in parts]), mean_of_parts, conditions, each
            )
    causal = None
    if first.causal is not None:
        tests = [result.causal for result in results if result.causal is not None]
        nulls = {kind: Measurement.join([test.nulls[kind] for test in tests], DRAW) for kind in first.causal.nulls}
        causal = CausalResult(mean([test.mean for test in tests]), nulls)
    return Result(
        joined([result.examples for result in results]), mean([result.mean for result in results]), controls, causal
    )


def at_own_head(result: Result) -> Result:
    """A result at its run's head in focus, without that head's number, which differs from seed to seed."""
    if not result.of_every_head and (result.causal is None or "edited" not in result.causal.mean.settings):
        return result
    result = result.at_head()
    controls = {name: replace(control, mean=_any_head(control.mean)) for name, control in result.controls.items()}
    causal = None if result.causal is None else replace(result.causal, mean=_any_head(result.causal.mean))
    return replace(result, mean=_any_head(result.mean), controls=controls, causal=causal)


def _any_head(measured: Measurement) -> Measurement:
    """A measurement without its head's number in the settings."""
    settings = {k: v for k, v in measured.settings.items() if k not in ("layer", "head")}
    return replace(measured, settings=settings | ({"edited": "each seed's own head"} if "edited" in settings else {}))
