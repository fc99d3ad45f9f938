"""Claims about a task's mechanisms in an inspection: beside their controls, by condition, and where they fail.

Claims about heads are read at the head in focus, which `inspect_run(run, ..., head=(layer, head))` chooses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from workbench.inspection import Inspected, Result
from workbench.measurement import Measurement, by_group
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.controls.words import in_words
from workbench.measurement.draws import rates_by_group
from workbench.measurement.groups import conditions_as_groups
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.places import at_point
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import LEAST_LOST, NeededHeads, where_in_words
from workbench.mechanisms.verdict import Needed, Verdict, strongest_control, verdicts
from workbench.util.lookup import lookup
from workbench.util.words import capitalised


class Results(Protocol):
    """Results by name: an inspection's, or those of several seeds together."""

    def __getitem__(self, name: str) -> Result: ...

    def __contains__(self, name: object) -> bool: ...


Rates = tuple[dict[str, Measurement], dict[str, dict[str, Measurement]]]
"""Run -> a claim's rates over some dim, and run -> control -> the same of that control."""


def beside(
    inspected: Inspected, null: str | None = None, names: Sequence[str] | None = None
) -> list[tuple[Measurement, Measurement]]:
    """Each claim's rate over all examples with its rate under a control, for `figures.mechanisms`.

    Args:
        inspected: the inspection.
        null: which control; by default at each place the strongest, whose name is in the control's `labels`.
        names: of which claims; by default of all that were measured.

    Raises:
        ValueError: if a claim was not measured, or not under this control.
    """
    by_claim = {name: _result(inspected, name) for name in (claims_of(inspected) if names is None else names)}
    if null is None:
        return [(one.mean, strongest_control(one.mean, verdicts_on(inspected, name))) for name, one in by_claim.items()]
    return [(one.mean, lookup(one.controls, null, "control").mean) for one in by_claim.values()]


def claims_of(inspected: Inspected) -> list[str]:
    """The claims that were measured."""
    return [name for name in MECHANISMS if name in inspected]


def verdicts_on(results: Results, name: str) -> list[Verdict]:
    """The verdict on a claim at each place where it is read: whether it holds beyond its controls and is needed.

    Raises:
        ValueError: if it was not measured.
    """
    one = _result(results, name)
    untrained, causal = one.controls.get(UNTRAINED), one.causal
    return verdicts(
        one.mean,
        {control: result.mean for control, result in one.controls.items()},
        None if untrained is None else untrained.draws,
        None if causal is None else causal.mean,
        None if causal is None else causal.untrained,
    )


def causal_lines(inspected: Inspected, name: str) -> list[str]:
    """A claim's causal test in words: one line for all places with the same verdict, then one about the needed heads.

    Raises:
        ValueError: if the claim was not measured.
    """
    one = _result(inspected, name)
    alike: dict[Needed, list[Verdict]] = {}
    for verdict in verdicts_on(inspected, name):
        alike.setdefault(verdict.needed, []).append(verdict)
    lines = []
    for group in alike.values():
        where = places_in_words(group)
        lines += [f"{where}: {line}" if where else line for line in needing_in_words(group, edited_in(one))]
    if one.causal is not None and one.causal.needed is not None:
        lines.append(set_in_words(one.causal.needed))
    return [capitalised(line) for line in lines]


def edited_in(one: Result) -> str:
    """Where the causal test made its edit, in words."""
    return "" if one.causal is None else str(one.causal.mean.settings.get("edited", ""))


def by_hop(inspected: Inspected, name: str) -> Rates:
    """A claim's rate at every hop, over all examples, for `figures.mechanism_rates`.

    Raises:
        ValueError: if it was not measured, or has no hops.
    """
    one = _result(inspected, name)
    one.mean.axis("hop")
    return {inspected.name: one.mean}, {
        inspected.name: {control: result.mean for control, result in one.controls.items()}
    }


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
    one = _result(inspected, name)
    groups = conditions_as_groups(inspected.sample.conditions)
    if groups is None:
        return None
    dim, of_each = groups
    controls = {
        control: rates_by_group(result.examples.select(**place), [each[dim] for each in result.conditions], dim)
        for control, result in one.controls.items()
    }
    return {inspected.name: by_group(one.examples.select(**place), of_each, dim)}, {inspected.name: controls}


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
    scores = _result(inspected, name).examples.select(**place).values
    parts = scores.reshape(-1, scores.shape[-1])
    defined = ~np.isnan(parts)
    tested = np.flatnonzero(defined.any(0))
    share = np.nansum(parts[:, tested], axis=0) / defined[:, tested].sum(0)
    fails = [(int(i), float(value)) for i, value in zip(tested, share, strict=True) if value < 1]
    return sorted(fails, key=lambda one: (one[1], len(inspected.sample.tokens[one[0]]))), len(tested)


def _result(results: Results, name: str) -> Result:
    """A claim's result; of a claim about heads, of the head in focus."""
    if name not in results or name not in MECHANISMS:
        lookup({claim: None for claim in MECHANISMS if claim in results}, name, "claim among those measured")
    return results[name].at_head()


def holding_in_words(group: Sequence[Verdict]) -> str:
    """Whether a claim holds beyond its controls, in words, for places with the same verdict; with the rates' range."""
    text = f"{group[0].holds.value}: {_range([one.rate for one in group])}"
    controls = [one.strongest for one in group if one.strongest]
    if not controls:
        return text
    names = ", ".join(dict.fromkeys(in_words(one.null) for one in controls))
    return f"{text}; strongest control {_range([one.value for one in controls])} ({names})"


def needing_in_words(group: Sequence[Verdict], edited: str = "") -> list[str]:
    """The causal test, in words, at places that share its verdict; an empty list where no test was made.

    Args:
        group: the verdicts.
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
    """The smallest set of heads whose edit changes nearly as many answers as in every head, or why none is."""
    everywhere = _changed(needed.everywhere)
    if np.isnan(everywhere).all():
        return "no right answer could be edited, so no set of heads can be found"
    lost = _range(everywhere.tolist())
    if not needed.heads or needed.causal is None or not np.nanmean(everywhere) >= LEAST_LOST:
        by_hop = f" ({lost} by hop)" if everywhere.size > 1 else ""
        mean = f"{float(np.nanmean(everywhere)):.0%}"
        return f"no set of heads is needed: the edit in every head changes {mean} of right answers{by_hop}"
    in_set = _range(_changed(needed.causal).tolist())
    return (
        f"the smallest set of heads whose edit changes nearly as many answers as in every head is "
        f"{where_in_words(needed.heads)}: {in_set} of right answers change (in every head {lost}; found on other "
        "sequences)"
    )


def _changed(test: Measurement) -> np.ndarray:
    """The share of right answers that the claimed edit changes, at every hop with enough of them to test."""
    changed = test.select(edit="claimed", outcome="changed")
    assert changed.n is not None
    return np.where(changed.n >= LEAST_FOR_A_VERDICT, changed.values, np.nan).reshape(-1)


def places_in_words(group: Sequence[Verdict]) -> str:
    """`hops 1 to 7` or `after attention 0, after MLP 1`; empty where the claim's rate has no dim for places."""
    if not group[0].place:
        return ""
    (dim,) = group[0].place
    labels = [one.place[dim] for one in group]
    if dim == "point":
        return ", ".join(map(at_point, labels))
    if len(labels) == 1:
        return f"{dim} {labels[0]}"
    if labels == list(range(labels[0], labels[0] + len(labels))):
        return f"{dim}s {labels[0]} to {labels[-1]}"
    return f"{dim}s {', '.join(map(str, labels))}"


def _range(values: Sequence[float]) -> str:
    """The range of some shares as text: `98%`, or `12% to 98%`; a dash where all are NaN."""
    there = [value for value in values if not np.isnan(value)]
    if not there:
        return "–"
    ends = dict.fromkeys(f"{value:.0%}" for value in (min(there), max(there)))
    return " to ".join(ends)
