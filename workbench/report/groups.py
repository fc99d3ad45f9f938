"""Runs that differ in their seed alone, taken together: what figures show, and a column of their own in the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from workbench.inspection import UNTRAINED, Inspected
from workbench.instruments import Measurement
from workbench.instruments.comparison import over_seeds
from workbench.instruments.draws import DRAW, over_draws


@dataclass(frozen=True)
class Shown:
    """One line of a figure: a run, or several seeds of one config.

    Attributes:
        name: what to call it.
        members: the runs behind it.
        measured, controls, causal: as `Inspected` has them; of several runs, the mean over seeds, of each one's best
            head where there is a value for every head.
        draws, causal_draws: as `Inspected` has them; of several runs, the models with fresh weights of all of them.
    """

    name: str
    members: Sequence[Inspected]
    measured: dict[str, Measurement]
    controls: dict[str, dict[str, Measurement]]
    causal: dict[str, Measurement]
    draws: dict[str, Measurement]
    causal_draws: dict[str, Measurement]

    @property
    def alone(self) -> bool:
        return len(self.members) == 1


def shown(inspected: Sequence[Inspected]) -> list[Shown]:
    """Each config once: a single run as it is, several seeds as their mean."""
    same: dict[str, list[Inspected]] = {}
    for one in inspected:
        same.setdefault(_without_seed(one), []).append(one)
    named: list[Shown] = []
    for members in same.values():
        name = members[0].name
        if len(members) > 1:
            name = f"{_common_name(members)}, {len(members)} seeds"
        taken = sum(other.name == name for other in named)
        named.append(_together(name + (f" ({taken + 1})" if taken else ""), members))
    return named


def _without_seed(one: Inspected) -> str:
    config = one.run.config.model_dump(mode="json", exclude={"seed", "preset", "device", "workers"})
    own = one.name if not one.run.config.steps else ""  # what was not trained here has no seed to differ in
    return json.dumps([config, own], sort_keys=True, default=str)


def _common_name(members: Sequence[Inspected]) -> str:
    letters = takewhile(lambda column: len(set(column)) == 1, zip(*(one.name for one in members), strict=False))
    start = "".join(column[0] for column in letters).rstrip("0123456789")
    name = start.rstrip("/-_. ").removesuffix("seed").rstrip("/-_. ")
    return name or members[0].run.config.preset or members[0].name


def _together(name: str, members: Sequence[Inspected]) -> Shown:
    first = members[0]
    if len(members) == 1:
        return Shown(name, members, first.measured, first.controls, first.causal, first.draws, first.causal_draws)
    measured = {
        key: _over_seeds(members, lambda one, key=key: one.measured[key])  # type: ignore[misc]
        for key, m in first.measured.items()
        if "head" not in m.dims or all(one.shown_head for one in members)
    }
    if first.gold_mass is not None:
        measured["gold_mass"] = _over_seeds(members, lambda one: one.gold_mass)
        measured["gold_mass-mismatched"] = _over_seeds(members, lambda one: one.gold_mass_control)
    draws, causal_draws = (
        {key: Measurement.join([getattr(one, which)[key] for one in members], DRAW) for key in getattr(first, which)}
        for which in ("draws", "causal_draws")
    )
    controls = {
        key: {null: _over_seeds(members, lambda one, key=key, null=null: one.controls[key][null]) for null in nulls}  # type: ignore[misc]
        for key, nulls in first.controls.items()
        if key in measured
    }
    for key, nulls in controls.items():
        if UNTRAINED in nulls and "head" not in draws[key].dims:
            nulls[UNTRAINED] = over_draws(draws[key])
    causal = {key: _over_seeds(members, lambda one, key=key: one.causal[key]) for key in first.causal}  # type: ignore[misc]
    return Shown(name, members, measured, controls, causal, draws, causal_draws)


def _over_seeds(members: Sequence[Inspected], of: Callable[[Inspected], Measurement | None]) -> Measurement:
    """One thing of every run, the mean over runs; of a measure of every head, each run's own best head."""
    found = [own_head(one, measured) for one in members if (measured := of(one)) is not None]
    return over_seeds(found, [one.run.config.seed for one in members])


def own_head(one: Inspected, measured: Measurement) -> Measurement:
    """Of a measure of every head, that of the run's head, whichever it is: heads of two models are not the same."""
    if "head" in measured.dims:
        measured = one.of_head(measured)
    elif "matrix" not in measured.settings:  # the best head's mass, already chosen
        return measured
    settings = {k: v for k, v in measured.settings.items() if k not in ("layer", "head")}
    return replace(measured, settings=settings | ({"edited": "each seed's own head"} if "edited" in settings else {}))
