"""What an inspection found of the claims about a task's mechanisms: beside controls, by condition, where they fail.

Claims about every head are read at the inspection's `shown_head`, which `inspect_run(run, ..., head=(layer, head))`
chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.inspection import Inspected
from workbench.measurement import Measurement, by_group
from workbench.measurement.controls import CONTROLS
from workbench.measurement.draws import rates_by_group
from workbench.measurement.groups import conditions_as_groups
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.places import point_name
from workbench.mechanisms.heads import LEAST_LOST, NeededHeads, where_in_words
from workbench.mechanisms.verdict import Needed, Verdict, strongest_control, verdicts
from workbench.util.lookup import lookup

Rates = tuple[dict[str, Measurement], dict[str, Measurement]]
"""Run -> a claim's rates over some dim, and "RUN, CONTROL IN WORDS" -> the same of each control."""


def of_head(found: Inspected, measured: Measurement) -> Measurement:
    """Of a measure of every head that of the head in focus; any other as it is."""
    return found.of_head(measured)


def beside(
    found: Inspected, null: str | None = None, names: Sequence[str] | None = None
) -> list[tuple[Measurement, Measurement]]:
    """Each claim's rate over all examples with its rate under a control, for `figures.mechanisms`.

    Args:
        found: the inspection.
        null: which control; by default at each place the strongest, whose name is in the control's `labels`.
        names: of which claims; by default of all that were measured.

    Raises:
        ValueError: if a claim was not measured, or not under this control.
    """
    names = list(found.control_examples) if names is None else names
    if null is None:
        return [(_rate(found, name), strongest_control(_rate(found, name), verdicts_on(found, name))) for name in names]
    return [(_rate(found, name), of_head(found, lookup(found.controls[name], null, "control"))) for name in names]


def verdicts_on(found: Inspected, name: str) -> list[Verdict]:
    """What may be said of a claim at each place where it is read: whether it holds beyond its controls, is needed.

    Raises:
        ValueError: if it was not measured.
    """
    return verdicts(
        _rate(found, name),
        {null: of_head(found, m) for null, m in found.controls[name].items()},
        found.draws.get(name),
        found.causal.get(name),
        found.causal_draws.get(name),
    )


def causal_lines(found: Inspected, name: str) -> list[str]:
    """What a claim's causal test says, a line for places that are judged alike, and the heads that are needed.

    Raises:
        ValueError: if the claim was not measured.
    """
    alike: dict[Needed, list[Verdict]] = {}
    for verdict in verdicts_on(found, name):
        alike.setdefault(verdict.needed, []).append(verdict)
    edited = str(found.causal[name].settings.get("edited", "")) if name in found.causal else ""
    lines = []
    for group in alike.values():
        where = places_in_words(group).removeprefix(", ")
        for line in needing_in_words(group, edited):
            text = f"{where}: {line}" if where else line
            lines.append(text[:1].upper() + text[1:])
    if name in found.needed_heads:
        text = set_in_words(found.needed_heads[name])
        lines.append(text[:1].upper() + text[1:])
    return lines


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
        null: rates_by_group(of_head(found, score).select(**place), [condition[dim] for condition in conditions], dim)
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
    return {found.name: rate}, {f"{found.name}, {CONTROLS[null].words}": m for null, m in nulls.items()}


def holding_in_words(group: Sequence[Verdict]) -> str:
    """Whether a claim holds beyond its controls, at places that are judged alike, with the range of the numbers."""
    text = f"{group[0].holds.value}: {_range([one.rate for one in group])}"
    controls = [one.strongest for one in group if one.strongest]
    if not controls:
        return text
    nulls = ", ".join(dict.fromkeys(CONTROLS[one.null].words for one in controls))
    return f"{text}; strongest control {_range([one.value for one in controls])} ({nulls})"


def needing_in_words(group: Sequence[Verdict], edited: str = "") -> list[str]:
    """What the causal test says at those places; nothing where none was made.

    Args:
        group: verdicts that are alike.
        edited: where the edit was made, in words.
    """
    needed, tests = group[0].needed, [one.tested for one in group if one.tested]
    if needed is Needed.UNTESTED:
        return []
    text = needed.value
    if not tests:
        return [text]
    as_claimed, changed, elsewhere = (
        _range([getattr(test, which) for test in tests]) for which in ("as_claimed", "changed", "elsewhere")
    )
    where = f"edited in {edited}" if edited else "edited"
    text += f": {where}, {changed} of right answers change, {as_claimed} as claimed (elsewhere {elsewhere} change"
    if not np.isnan([test.in_nulls for test in tests]).all():
        text += f"; in untrained models at most {np.nanmax([test.in_nulls for test in tests]):.0%} as claimed"
    return [f"{text}; n = {min(test.n for test in tests)})"]


def set_in_words(needed: NeededHeads) -> str:
    """Which heads the answers come by, as far as the claim's edit can tell."""
    everywhere = _changed(needed.everywhere)
    if np.isnan(everywhere).all():
        return "no right answer could be edited, so no set of heads can be found"
    lost = _range(everywhere.tolist())
    if not needed.heads or needed.causal is None or not np.nanmean(everywhere) >= LEAST_LOST:
        by_hop = f" ({lost} by hop)" if everywhere.size > 1 else ""
        mean = f"{float(np.nanmean(everywhere)):.0%}"
        return f"no set of heads is needed: the edit in every head changes {mean} of right answers{by_hop}"
    own = _range(_changed(needed.causal).tolist())
    return (
        f"the smallest set of heads whose edit loses the answers is {where_in_words(needed.heads)}: {own} of right "
        f"answers change (in every head {lost}; found on other sequences)"
    )


def _changed(test: Measurement) -> np.ndarray:
    """What the claimed edit changes, at every hop that has enough right answers to test."""
    changed = test.select(edit="claimed", outcome="changed")
    assert changed.n is not None
    return np.where(changed.n >= LEAST_FOR_A_VERDICT, changed.values, np.nan).reshape(-1)


def places_in_words(group: Sequence[Verdict]) -> str:
    """`, hops 1 to 7` or `, at 0 · mid, 1 · post`; nothing where there is one place only."""
    if not group[0].place:
        return ""
    (dim,) = group[0].place
    labels = [one.place[dim] for one in group]
    if dim == "point":
        return f", at {', '.join(map(point_name, labels))}"
    if len(labels) == 1:
        return f", {dim} {labels[0]}"
    if labels == list(range(labels[0], labels[0] + len(labels))):
        return f", {dim}s {labels[0]} to {labels[-1]}"
    return f", {dim}s {', '.join(map(str, labels))}"


def _range(values: Sequence[float]) -> str:
    """`98%`, or `12% to 98%`; a dash where there is none."""
    there = [value for value in values if not np.isnan(value)]
    if not there:
        return "–"
    ends = dict.fromkeys(f"{value:.0%}" for value in (min(there), max(there)))
    return " to ".join(ends)
