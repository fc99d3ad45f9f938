"""The rates of claims in an inspection, for figures: beside a control, by hop, by condition, and where they fail.

Claims about heads are read at the head in focus, which `inspect_run(run, ..., head=(layer, head))` chooses. What may be
said of them is judged in `inspection.judged`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.inspection.judged import result_of, strongest_control
from workbench.inspection.result import Inspected
from workbench.measurement import Measurement, by_group
from workbench.measurement.draws import rates_by_group
from workbench.measurement.groups import conditions_as_groups
from workbench.mechanisms import MECHANISMS
from workbench.util.lookup import lookup

Rates = tuple[dict[str, Measurement], dict[str, dict[str, Measurement]]]
"""Run -> a claim's rates over some dim, and run -> control -> the same of that control."""


def beside(
    inspected: Inspected, null: str | None = None, names: Sequence[str] | None = None
) -> list[tuple[Measurement, Measurement]]:
    """Each claim's rate over all examples with its rate under a control, for `figures.mechanisms`.

    Args:
        inspected: the inspection.
        null: which control; by default at each place the one that the claim exceeds least clearly, whose name is in the
            control's `labels`.
        names: of which claims; by default of all that were measured.

    Raises:
        ValueError: if a claim was not measured, or not under this control.
    """
    measured = [name for name in MECHANISMS if name in inspected]
    by_claim = {name: result_of(inspected, name) for name in (measured if names is None else names)}
    if null is None:
        return [(result.mean, strongest_control(inspected, name)) for name, result in by_claim.items()]
    return [(result.mean, lookup(result.controls, null, "control").mean) for result in by_claim.values()]


def by_hop(inspected: Inspected, name: str) -> Rates:
    """A claim's rate at every hop, over all examples, for `figures.mechanism_rates`.

    Raises:
        ValueError: if it was not measured, or has no hops.
    """
    result = result_of(inspected, name)
    result.mean.axis("hop")
    return {inspected.name: result.mean}, {inspected.name: result.control_means}


def by_condition(inspected: Inspected, name: str, **place: Any) -> Rates | None:
    """A claim's rate in each of the task's test conditions, such as lengths, for `figures.mechanism_rates`.

    Args:
        inspected: the inspection.
        name: of the claim.
        place: the point or the hop at which it is read, where there are several.

    Returns None where the task's test conditions do not differ in a number.

    Raises:
        ValueError: if the claim was not measured, or not at such a place.
    """
    result = result_of(inspected, name)
    groups = conditions_as_groups(inspected.sample.conditions)
    if groups is None:
        return None
    dim, of_each = groups
    controls = {
        control: rates_by_group(result.examples.select(**place), [each[dim] for each in result.conditions], dim)
        for control, result in result.controls.items()
    }
    return {inspected.name: by_group(result.examples.select(**place), of_each, dim)}, {inspected.name: controls}


def failing(inspected: Inspected, name: str, **place: Any) -> tuple[list[tuple[int, float]], int]:
    """The examples in which a claim does not hold throughout, worst first, shorter ones before longer ones.

    Args:
        inspected: the inspection; its `sample` has their tokens.
        name: of the claim.
        place: the point or the hop at which it is read; by default all places together.

    Returns the number of each with the share of its cases in which the claim holds; and in how many examples the claim
    can be tested at all.

    Raises:
        ValueError: if the claim was not measured, or not at such a place.
    """
    scores = result_of(inspected, name).examples.select(**place).values
    parts = scores.reshape(-1, scores.shape[-1])
    defined = ~np.isnan(parts)
    tested = np.flatnonzero(defined.any(0))
    share = np.nansum(parts[:, tested], axis=0) / defined[:, tested].sum(0)
    fails = [(int(i), float(value)) for i, value in zip(tested, share, strict=True) if value < 1]
    return sorted(fails, key=lambda failure: (failure[1], len(inspected.sample.tokens[failure[0]]))), len(tested)
