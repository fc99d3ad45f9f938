"""What is measured of both sides of a comparison: on held-out sequences, or, of one model, on two inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from workbench import figures
from workbench.app.config_in_words import plain
from workbench.app.fields.heads import best_head
from workbench.app.fields.sides import Sides
from workbench.app.panels import code
from workbench.app.panels.code import Symbol, value_of
from workbench.app.panels.panel import Panel
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.findings import measured_on
from workbench.instruments import INSTRUMENTS
from workbench.interventions import Head
from workbench.judgement.findings import MeasuredOn
from workbench.judgement.words.by_place import both_at, differs
from workbench.judgement.words.findings import conditions_of
from workbench.measurement import Measurement, by_group
from workbench.measurement.compare_runs import compare, difference, difference_by_group
from workbench.measurement.groups import conditions_as_groups
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.util.words import uncapitalised

NAMES = ("overall", "accuracy", "entropy", "logit_lens", "lens_agreement", "attention_graph", *MECHANISMS)


@dataclass(frozen=True)
class Pair:
    """One measure of both sides of a comparison.

    Attributes:
        first, second: symbols of each side's measurement, with its dim `example`.
        same_examples: a symbol that is true if both are measured on the same sequences; or False.
        groups: symbols of each side's (dim, group of each example), if conditions differ in a number (`length`).
        of_best_head: whether the measure has a value for every head; each side then shows its own best head.
    """

    first: Symbol
    second: Symbol
    same_examples: Symbol | bool
    groups: tuple[Symbol, Symbol] | None
    of_best_head: bool

    @property
    def values(self) -> tuple[Measurement, Measurement]:
        """The two measurements."""
        both: tuple[Measurement, Measurement] = value_of((self.first, self.second))
        return both


def inspected(sides: Sides, only: Sequence[str] = NAMES) -> tuple[Symbol, Symbol]:
    """Both sides on held-out sequences. Everything is measured at once, and `only` is what the code needs of it."""
    how: dict[str, Any] = {"n": sides.n, "seed": 0, "nulls": (), "causal": False}
    first, second = (
        code.assign(
            f"measured{look.suffix}",
            inspect_run,
            code.run(look.opened, look.suffix),
            only=list(only),
            **how,
            step=look.opened.step,
            computed_by=lambda run, only, opened=look.opened, **how: _inspected(opened.key, opened.name, how, run),
        )
        for look in sides.looks
    )
    return first, second


# A resource, not data: what was inspected holds a capture, which refers to its model.
@st.cache_resource(show_spinner="Measuring held-out sequences …", max_entries=16)
def _inspected(key: tuple[Any, ...], name: str, how: dict[str, Any], _run: Run) -> Inspected:
    return inspect_run(_run, name=name, only=NAMES, **how)


def why_not(sides: Sides, name: str) -> str | None:
    """Why an instrument or a mechanism does not apply to one of the two sides; None where it does to both."""
    part: Any = INSTRUMENTS[name] if name in INSTRUMENTS else MECHANISMS[name]
    reasons = [(look.opened.name, part.why_not(look.opened.subject)) for look in sides.looks]
    return next((f"{run}: {why}" for run, why in reasons if why is not None), None)


def pair(sides: Sides, name: str, **where: Any) -> Pair:
    """An instrument or a mechanism of both sides: on held-out sequences, or, of one model, on the two inputs.

    Args:
        sides: the two.
        name: of an instrument or mechanism that applies to both.
        where: the part to take: dim -> label. Of what is measured of every head, each side's own best head is taken.
    """
    if sides.one_model:
        if name in INSTRUMENTS:
            measure = code.imported("workbench.instruments", "INSTRUMENTS")[name].measure
        else:
            measure = code.imported("workbench.mechanisms", "MECHANISMS")[name].score
        whole = [measure(code.seen(look)) for look in sides.looks]
        first, second = (
            code.named(which, _part(one, where, best_head(look)))
            for which, one, look in zip(("first", "second"), whole, sides.looks, strict=True)
        )
        return Pair(first, second, False, None, "head" in value_of(whole[0]).dims)
    inspections = inspected(sides, [name])
    parts = [_part(one[name].examples, where, value_of(one).head) for one in inspections]
    first, second = (code.named(which, part) for which, part in zip(("first", "second"), parts, strict=True))
    groups = tuple(code.call(conditions_as_groups, one.sample.conditions) for one in inspections)
    dims = [grouping and grouping[0] for grouping in value_of(groups)]
    alike = groups if dims[0] is not None and dims[0] == dims[1] else None
    of_heads = value_of(inspections[0])[name].of_every_head
    return Pair(first, second, inspections[0].sample.fingerprint == inspections[1].sample.fingerprint, alike, of_heads)  # type: ignore[arg-type]


def _part(measured: Symbol, where: dict[str, Any], head: Head | None) -> Symbol:
    """The part of a measure that `where` selects; of a measure of every head, that of one head."""
    if "head" in value_of(measured).dims:
        assert head is not None, "what is measured of every head has a graph to choose one by"
        where = {**where, "layer": head[0], "head": head[1]}
    part: Symbol = measured.select(**where) if where else measured
    return part


def show(p: Panel, sides: Sides, both: Pair, says: str, *, by_condition: bool = False) -> None:
    """Both sides and their difference as one figure; if they have nothing in common, a message that says so.

    Args:
        p: the panel.
        sides: the two.
        both: what was measured of them.
        says: the caption.
        by_condition: draw it over the task's test conditions, if they have an order and it is a single number.
    """
    examples, same = (both.first, both.second), both.same_examples
    try:
        if by_condition and both.groups is not None and both.values[0].dims == ("example",):
            first, second = both.groups
            dim = value_of(first)[0]
            each = code.named("group_of_each", first[1]), code.named("group_of_each_b", second[1])
            parts = tuple(zip(examples, each, strict=True))
            runs = {name: code.call(by_group, *one, dim) for name, one in zip(sides.names, parts, strict=True)}
            b_minus_a = code.assign("b_minus_a", difference_by_group, *parts, dim, same_examples=same)
        else:
            runs = {name: m.mean("example") for name, m in zip(sides.names, examples, strict=True)}
            b_minus_a = code.assign("b_minus_a", difference, *examples, same_examples=same)
    except ValueError as error:
        st.info(f"A and B cannot be subtracted here: {plain(str(error))}.")
        return
    verdict = differs(value_of(b_minus_a), [value_of(run) for run in runs.values()])
    if verdict and not sides.one_model:
        samples = [measured_on(value_of(one)) for one in inspected(sides)]
        if conditions := _conditions(samples):
            said = verdict if verdict.startswith("B ") else uncapitalised(verdict)
            verdict = f"{conditions}: {said}{_beyond_training(samples, both)}"
    p.show(
        code.call(figures.with_difference, runs, b_minus_a), {**runs, "difference": b_minus_a}, says, verdict=verdict
    )


def _conditions(samples: Sequence[MeasuredOn]) -> str:
    """At which lengths, or other conditions, the two are measured, each its own where they differ; empty without."""
    each = ["" if sample.spread is None else conditions_of(sample) for sample in samples]
    if each[0] == each[1]:
        return f"At {each[0]}" if each[0] else ""
    return "; ".join(f"{side} at {said}" for side, said in zip(("A", "B"), each, strict=True) if said)


def _beyond_training(samples: Sequence[MeasuredOn], both: Pair) -> str:
    """Whole answers at lengths, or other conditions, above those that either side was trained on; empty without."""
    trained = [sample.trained[1] for sample in samples if sample.trained]
    if both.values[0].dims != ("unit", "example") or both.groups is None or len(trained) < len(samples):
        return ""
    (name, first), (_, second) = value_of(both.groups)
    longer = sorted({condition for condition in first if condition > max(trained)})
    if not longer or longer != sorted({condition for condition in second if condition > max(trained)}):
        return ""
    parts = [
        measured.select(unit="sequence").pick([i for i, condition in enumerate(own) if condition in longer])
        for measured, own in zip(both.values, (first, second), strict=True)
    ]
    apart = difference(*parts, same_examples=value_of(both.same_examples))
    rates = both_at(apart, [part.mean("example") for part in parts], {})
    return f" Of these, at {name} {longer[0]} to {longer[-1]}, beyond training: per sequence: {rates}."


def compared(sides: Sides) -> pd.DataFrame | None:
    """Every number that both sides have over the same held-out sequences, in pairs; None where there are none."""
    first, second = value_of(inspected(sides))
    if first.sample.fingerprint != second.sample.fingerprint:
        return None
    return _compared((*sides.first.opened.key, *sides.second.opened.key, sides.n), sides)


@st.cache_data(show_spinner="Comparing in pairs …", max_entries=32)
def _compared(key: tuple[Any, ...], _sides: Sides) -> pd.DataFrame:
    names = [name for name in NAMES if name != "attention_graph" and why_not(_sides, name) is None]
    pairs = [pair(_sides, name).values for name in names]
    first, second = ({both[0].name: both[side] for both in pairs} for side in (0, 1))
    return compare(first, second)
