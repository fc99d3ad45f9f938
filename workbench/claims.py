"""What an inspection found of the claims about a task's mechanisms: beside controls, by condition, where they fail.

Claims about every head are read at the inspection's `shown_head`, which `inspect_run(run, ..., head=(layer, head))`
chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.figures.style import NULLS_IN_WORDS
from workbench.inspection import Inspected
from workbench.instruments import Measurement
from workbench.instruments.grouped import by_group, conditions_as_groups
from workbench.lookup import lookup

Rates = tuple[dict[str, Measurement], dict[str, Measurement]]
"""Run -> a claim's rates over some dim, and "RUN, CONTROL IN WORDS" -> the same of each control."""


def of_head(found: Inspected, measured: Measurement) -> Measurement:
    """Of a measure of every head that of the head in focus; any other as it is."""
    layer, head = found.shown_head
    return measured.select(layer=layer, head=head) if "head" in measured.dims else measured


def beside(
    found: Inspected, null: str = "mismatched", names: Sequence[str] | None = None
) -> list[tuple[Measurement, Measurement]]:
    """Each claim's rate over all examples with its rate under one of its controls, for `figures.mechanisms`.

    Args:
        found: the inspection.
        null: which control.
        names: of which claims; by default of all that were measured.

    Raises:
        ValueError: if a claim was not measured, or not under this control.
    """
    names = list(found.control_examples) if names is None else names
    return [(_rate(found, name), of_head(found, lookup(found.controls[name], null, "control"))) for name in names]


def by_hop(found: Inspected, name: str) -> Rates:
    """A claim's rate at every hop, over all examples, for `figures.mechanism_rates`.

    Raises:
        ValueError: if it was not measured, or has no hops.
    """
    rate = _rate(found, name)
    rate.axis("hop")
    nulls = {null: of_head(found, m) for null, m in found.controls[name].items()}
    return _named(found, rate, nulls)


def by_condition(found: Inspected, name: str, **place: Any) -> Rates | None:
    """A claim's rate in each of the task's test conditions, such as lengths, for `figures.mechanism_rates`.

    Args:
        found: the inspection.
        name: of the claim.
        place: the point or the hop at which it is read, where there are several.

    Returns None where the task's test conditions do not differ in a number.

    Raises:
        ValueError: if the claim was not measured, or not at such a place.
    """
    _rate(found, name)
    groups = conditions_as_groups(found.conditions)
    if groups is None:
        return None
    dim, of_each = groups
    nulls = {
        null: by_group(of_head(found, score).select(**place), [condition[dim] for condition in conditions], dim)
        for null, (score, conditions) in found.control_examples[name].items()
    }
    return _named(found, by_group(of_head(found, found.examples[name]).select(**place), of_each, dim), nulls)


def failing(found: Inspected, name: str, **place: Any) -> tuple[list[tuple[int, float]], int]:
    """The examples in which a claim does not hold throughout, worst first, shorter ones before longer ones.

    Args:
        found: the inspection; its `sequences` has their tokens.
        name: of the claim.
        place: the point or the hop at which it is read; by default all places together.

    Returns the number of each with the share of its cases in which the claim holds; and in how many examples the claim
    can be tested at all.

    Raises:
        ValueError: if the claim was not measured, or not at such a place.
    """
    _rate(found, name)
    scores = of_head(found, found.examples[name]).select(**place).values
    parts = scores.reshape(-1, scores.shape[-1])
    defined = ~np.isnan(parts)
    tested = np.flatnonzero(defined.any(0))
    share = np.nansum(parts[:, tested], axis=0) / defined[:, tested].sum(0)
    fails = [(int(i), float(value)) for i, value in zip(tested, share, strict=True) if value < 1]
    return sorted(fails, key=lambda one: (one[1], len(found.sequences[one[0]]))), len(tested)


def _rate(found: Inspected, name: str) -> Measurement:
    lookup(found.control_examples, name, "claim among those measured")
    return of_head(found, found.measured[name])


def _named(found: Inspected, rate: Measurement, nulls: dict[str, Measurement]) -> Rates:
    return {found.name: rate}, {f"{found.name}, {NULLS_IN_WORDS[null]}": m for null, m in nulls.items()}
