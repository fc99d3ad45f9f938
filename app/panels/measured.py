"""What is measured of both sides of a comparison, and the lines that do: over held-out sequences, or on two inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from workbench import figures
from workbench.app.fields.heads import best_head
from workbench.app.fields.sides import Sides
from workbench.app.panels.panel import Panel, code
from workbench.app.state import Opened, plain
from workbench.inspection import Inspected, inspect_run
from workbench.instruments import INSTRUMENTS, Instrument
from workbench.interventions import Head
from workbench.measurement import Measurement, by_group
from workbench.measurement.comparison import compare, difference, difference_by_group
from workbench.measurement.groups import conditions_as_groups
from workbench.mechanisms import MECHANISMS, Mechanism

NAMES = ("overall", "accuracy", "entropy", "logit_lens", "lens_agreement", "attention_graph", *MECHANISMS)
Groups = tuple[str, list[Any]]


@dataclass(frozen=True)
class Pair:
    """One measure of both sides, with its dim `example`.

    Attributes:
        first, second: the measure of each.
        same_examples: whether they are over the same sequences.
        groups: what the test conditions of both are told apart by (`length`), and each example's.
        lines: the lines of Python that make `first`, `second` and `same`.
        imports: of these lines.
        inputs: whether they are about the two inputs.
        of_best_head: whether it is measured of every head, and each side's own best one was taken.
    """

    first: Measurement
    second: Measurement
    same_examples: bool
    groups: tuple[Groups, Groups] | None
    lines: tuple[str, ...]
    imports: tuple[str, ...]
    inputs: bool
    of_best_head: bool


def inspected(sides: Sides) -> tuple[Inspected, Inspected]:
    """Both sides over held-out sequences."""
    first, second = (_inspected(look.opened.key, sides.n, look.opened) for look in sides.looks)
    return first, second


# A resource, not data: what was inspected holds a capture, which refers to its model.
@st.cache_resource(show_spinner="Measuring held-out sequences …", max_entries=16)
def _inspected(key: tuple[Any, ...], n: int, _opened: Opened) -> Inspected:
    how: dict[str, Any] = {"nulls": (), "causal": False}
    return inspect_run(_opened.run, n=n, seed=0, name=_opened.name, step=_opened.step, only=NAMES, **how)


def _thing(name: str) -> Instrument | Mechanism:
    return INSTRUMENTS[name] if name in INSTRUMENTS else MECHANISMS[name]


def why_not(sides: Sides, name: str) -> str | None:
    """Why an instrument or a mechanism does not apply to one of the two sides; None where it does to both."""
    thing = _thing(name)
    found = [(look.opened.name, thing.why_not(look.opened.subject)) for look in sides.looks]
    return next((f"{run}: {why}" for run, why in found if why is not None), None)


def pair(sides: Sides, name: str, **where: Any) -> Pair:
    """An instrument or a mechanism of both sides: over held-out sequences, or where the model is one, of the inputs.

    Args:
        sides: the two.
        name: of one that applies to both.
        where: the part to take: dim -> label. Of what is measured of every head, each side's own best head is taken.
    """
    return _of_inputs(sides, name, where) if sides.one_model else _held_out(sides, name, where)


def _held_out(sides: Sides, name: str, where: dict[str, Any]) -> Pair:
    found = inspected(sides)
    same = found[0].sample.fingerprint == found[1].sample.fingerprint
    parts, lines = [], [f'how = {{"n": {sides.n}, "seed": 0, "nulls": (), "causal": False}}']
    for look in sides.looks:
        lines.append(f"found{look.suffix} = inspect_run(run{look.suffix}{look.opened.and_at}, only=[{name!r}], **how)")
    for which, look, one in zip(("first", "second"), sides.looks, found, strict=True):
        part, chosen = _part(one[name].examples, where, one.head)
        parts.append(part)
        lines.append(f"{which} = found{look.suffix}[{name!r}].examples{chosen}")
    lines.append("same = found.sample.fingerprint == found_b.sample.fingerprint")
    groups = tuple(conditions_as_groups(one.sample.conditions) for one in found)
    told_apart = groups if None not in groups and groups[0][0] == groups[1][0] else None  # type: ignore[index]
    imports = ("from workbench.inspection import inspect_run",)
    heads = found[0][name].of_every_head
    return Pair(parts[0], parts[1], same, told_apart, tuple(lines), imports, False, heads)  # type: ignore[arg-type]


def _of_inputs(sides: Sides, name: str, where: dict[str, Any]) -> Pair:
    room, verb = ("instruments", "measure") if name in INSTRUMENTS else ("mechanisms", "score")
    function: Callable[..., Measurement] = getattr(_thing(name), verb)
    parts, lines = [], []
    for which, look in zip(("first", "second"), sides.looks, strict=True):
        every = function(look.seen)
        part, chosen = _part(every, where, best_head(look))
        parts.append(part)
        lines.append(f"{which} = {name}.{verb}(seen{look.suffix}){chosen}")
    imports = (f"from workbench.{room} import {name}",)
    return Pair(parts[0], parts[1], False, None, (*lines, "same = False"), imports, True, "head" in every.dims)


def _part(m: Measurement, where: dict[str, Any], head: Head | None) -> tuple[Measurement, str]:
    """The part asked for, of a measure of every head that of one; and how a line of Python takes it."""
    if "head" in m.dims:
        assert head is not None, "what is measured of every head has a graph to choose one by"
        where = {**where, "layer": head[0], "head": head[1]}
    if not where:
        return m, ""
    return m.select(**where), f".select({', '.join(f'{dim}={label!r}' for dim, label in where.items())})"


def show(p: Panel, sides: Sides, found: Pair, says: str, *, by_condition: bool = False) -> None:
    """Both sides and their difference as one figure; where they have nothing in common, a line that says so.

    Args:
        p: the panel.
        sides: the two.
        found: what was measured of them.
        says: the caption.
        by_condition: draw it over the task's test conditions, where they have an order and it is a single number.
    """
    grouped = by_condition and found.groups is not None and found.first.dims == ("example",)
    try:
        runs, apart, lines, imports = (_by_condition if grouped else _over_all)(sides, found)
    except ValueError as error:
        st.info(f"A and B have no difference here: {plain(str(error))}.")
        return
    lines = (*found.lines, *lines, "figure = figures.with_difference(sides, apart)")
    imports = ("from workbench import figures", *found.imports, *imports)
    text = code(sides.first, *lines, imports=imports, beside=sides.second, inputs=found.inputs)
    p.show(figures.with_difference(runs, apart), {**runs, "difference": apart}, text, says)


Drawn = tuple[dict[str, Measurement], Measurement, tuple[str, ...], tuple[str, ...]]
"""Both sides by their names, their difference, the lines that make them as `sides` and `apart`, and their imports."""


def _over_all(sides: Sides, found: Pair) -> Drawn:
    one, other = sides.names
    runs = {one: found.first.mean("example"), other: found.second.mean("example")}
    lines = (
        f"sides = {{{one!r}: first.mean('example'), {other!r}: second.mean('example')}}",
        "apart = difference(first, second, same_examples=same)",
    )
    apart = difference(found.first, found.second, same_examples=found.same_examples)
    return runs, apart, lines, ("from workbench.measurement.comparison import difference",)


def _by_condition(sides: Sides, found: Pair) -> Drawn:
    assert found.groups is not None
    (group, first), (_, second) = found.groups
    one, other = sides.names
    runs = {one: by_group(found.first, first, group), other: by_group(found.second, second, group)}
    same = found.same_examples
    apart = difference_by_group((found.first, first), (found.second, second), group, same_examples=same)
    lines = (
        "group, groups = conditions_as_groups(found.sample.conditions)",
        "_, groups_b = conditions_as_groups(found_b.sample.conditions)",
        f"sides = {{{one!r}: by_group(first, groups, group), {other!r}: by_group(second, groups_b, group)}}",
        "apart = difference_by_group((first, groups), (second, groups_b), group, same_examples=same)",
    )
    imports = (
        "from workbench.measurement.comparison import difference_by_group",
        "from workbench.measurement.groups import by_group, conditions_as_groups",
    )
    return runs, apart, lines, imports


def compared(sides: Sides) -> pd.DataFrame | None:
    """Every number that both sides have over the same held-out sequences, in pairs; None where there are none."""
    found = inspected(sides)
    if found[0].sample.fingerprint != found[1].sample.fingerprint:
        return None
    return _compared((*sides.first.opened.key, *sides.second.opened.key, sides.n), sides)


@st.cache_data(show_spinner="Comparing in pairs …", max_entries=32)
def _compared(key: tuple[Any, ...], _sides: Sides) -> pd.DataFrame:
    names = [name for name in NAMES if name != "attention_graph" and why_not(_sides, name) is None]
    pairs = {name: pair(_sides, name) for name in names}
    first, second = ({m.first.name: getattr(m, side) for m in pairs.values()} for side in ("first", "second"))
    return compare(first, second)
