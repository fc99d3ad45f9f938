"""Results of an inspection from its batches: means, intervals, ranges over models with fresh weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from workbench.inspection.measures import EVERY_HEAD, IN_FOCUS, NEEDED_HEADS, Measure
from workbench.inspection.result import CausalResult, ControlResult, Result
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.measurement.controls import CONTROLS, UNTRAINED, control_in_words
from workbench.measurement.draws import DRAW, over_draws
from workbench.mechanisms.heads import NeededHeads

OF_WEIGHTS = "It looks at the weights alone, so that there is no interval over sequences."
VOID = "nothing changes: every example has the same, so that this is no control here."
EMPTY = "no example is left: each needs another of equal length, so that there is no such control here."


def averaged_result(measure: Measure, head: Head | None, needed: tuple[Head, ...], counts: Mapping[str, int]) -> Result:
    """One measure's result.

    Args:
        measure: the measure, with its measurement of every batch.
        head: the head in focus.
        needed: of a claim about heads, the smallest set of heads whose edit loses the answers.
        counts: how many sequences were `drawn` and how many are `distinct`, for the settings.
    """
    examples = joined(measure.batches)
    if "example" in examples.dims:
        examples = replace(examples, settings={**examples.settings, **counts})
    else:
        examples = replace(examples, caption=f"{examples.caption} {OF_WEIGHTS}".strip())
    controls = {
        name: ControlResult(of_control := joined(parts), _averaged(of_control), measure.control_conditions[name])
        for name, parts in measure.control_batches.items()
    }
    without = {name: EMPTY for name in measure.controls if CONTROLS[name].of_capture and name not in controls}
    without |= {name: VOID for name, control in controls.items() if _is_the_same(control.examples, examples)}
    for name, why in without.items():
        controls.pop(name, None)
        examples = replace(examples, caption=f"{examples.caption} {control_in_words(name).capitalize()} {why}".strip())
    if measure.fresh_batches:  # the mean of each model with fresh weights, then the mean and range of those
        models = [joined(parts) for parts in measure.fresh_batches.values()]
        of_models = Measurement.stack(models, DRAW, range(len(models)))
        draws = _averaged(of_models)
        conditions = measure.control_conditions.get(UNTRAINED, [])
        controls[UNTRAINED] = ControlResult(of_models, over_draws(draws), conditions, draws)
    return Result(examples, _averaged(examples), controls, _causal(measure, needed), head)


def _is_the_same(control: Measurement, measured: Measurement) -> bool:
    """Whether a control's numbers are the measure's own, in another order of the examples.

    So it is where another example's truth is the same as one's own. Numbers of which many are alike, as hits, are never
    taken for the same: they may be as many by chance.
    """
    if "example" not in measured.dims or control.values.shape != measured.values.shape:
        return False
    axis = measured.axis("example")
    own, other = (np.sort(m.values, axis=axis) for m in (measured, control))
    return np.unique(own).size > own.size / 2 and np.array_equal(own, other, equal_nan=True)


def _causal(measure: Measure, needed: tuple[Head, ...]) -> CausalResult | None:
    """A mechanism's causal test averaged over examples; None where none was made."""
    tests = {key: Measurement.join(parts).mean("example") for key, parts in measure.causal_batches.items()}
    if IN_FOCUS not in tests:
        return None
    models: dict[str, list[Measurement]] = {}
    for key, test in tests.items():
        if isinstance(key, tuple):
            models.setdefault(key[0], []).append(test)
    nulls = {kind: Measurement.stack(each, DRAW, range(len(each))) for kind, each in models.items()}
    heads = NeededHeads(needed, tests.get(NEEDED_HEADS), tests[EVERY_HEAD]) if EVERY_HEAD in tests else None
    return CausalResult(tests[IN_FOCUS], nulls, heads)


def joined(parts: Sequence[Measurement]) -> Measurement:
    """All batches as one measurement; a measure of the weights alone has no dim `example`, and is the same in each."""
    return Measurement.join(parts) if "example" in parts[0].dims else parts[0]


def _averaged(measured: Measurement) -> Measurement:
    """The mean over examples with its interval; a measure of the weights alone as it is."""
    return measured.mean("example") if "example" in measured.dims else measured
