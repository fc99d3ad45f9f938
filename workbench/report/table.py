"""The summary: one table, a column for each run and for each config that several seeds were trained of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from workbench.figures.style import NULLS_IN_WORDS, place_in_words, point_name
from workbench.inspection import Inspected
from workbench.instruments import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.report.groups import Shown, own_head, shown

Column = Inspected | Shown
Row = tuple[str, list[str]]


def summarise(columns: Sequence[Column], found: Sequence[Row]) -> str:
    """The table as text: its columns, and what `rows` found of them."""
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for one in columns:
        table.add_column(one.name, justify="right", no_wrap=True)
    for label, cells in found:
        table.add_row(label, *cells)
    return as_text(table, 70 + 40 * len(columns))


def as_text(table: Table, width: int) -> str:
    console = Console(file=StringIO(), width=width, no_color=True, markup=False)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def all_columns(inspected: Sequence[Inspected]) -> list[Column]:
    """Every run, then every config of which there are several seeds."""
    return [*inspected, *(one for one in shown(inspected) if not one.alone)]


def rows(columns: Sequence[Column]) -> list[Row]:
    """A label, and a figure for each column ("–" where it does not apply)."""
    found: list[Row] = []

    def add(label: str, cell: Callable[[Column], str]) -> None:
        found.append((label, [cell(one) for one in columns]))

    add("model", _shape)
    add("trained for", _trained)
    if any("overall" in one.measured for one in columns):
        for unit in ("position", "sequence"):
            add(f"accuracy, per {unit}", _cell("overall", {"unit": unit}, share))
    for group, value in _coordinates(columns, "accuracy"):
        add(f"  {group} {value}", _cell("accuracy", {group: value}, share))
    entropy = next((one.measured["entropy"] for one in columns if "entropy" in one.measured), None)
    if entropy is not None:
        add(f"matrix entropy ({entropy.units}; {_entropy_settings(entropy)})", lambda one: "")
    for dim, point in _coordinates(columns, "entropy"):
        add(f"  {point_name(point)}", _cell("entropy", {dim: point}, number))
    runs = [one for one in columns if isinstance(one, Inspected)]
    if any(one.gold_mass is not None for one in runs):
        add("resolvent's mass on gold paths, best head", lambda one: share(_gold(one)))
        add("  which head (chosen on other data)", _head)
        add("  against other examples' truth", lambda one: share(_gold(one, control=True)))
    for name in MECHANISMS:
        _add_mechanism(add, columns, name)
    return found


def _add_mechanism(add: Callable[[str, Callable[[Column], str]], None], columns: Sequence[Column], name: str) -> None:
    """A row per place where the claim is read, and under a single one its controls and its causal test."""
    scores = {one.name: of_shown_head(one, one.measured[name]) for one in columns if name in one.measured}
    if not scores:
        return
    first = next(iter(scores.values()))
    for index in np.ndindex(*first.values.shape):
        where = {dim: first.coords[dim][i] for dim, i in zip(first.dims, index, strict=True)}
        label = first.name + (f": {place_in_words(where)}" if where else "")
        add(label, lambda one, where=where: value(scores.get(one.name), where, share))  # type: ignore[misc]
    if first.dims:
        return  # their controls are in the figures and files
    nulls = dict.fromkeys(null for one in columns for null in one.controls.get(name, ()))
    for null in nulls:
        add(f"  {NULLS_IN_WORDS[null]}", lambda one, null=null: share(_control(one, name, null)))  # type: ignore[misc]
    tests = [one.causal[name] for one in columns if name in one.causal]
    edits = dict.fromkeys(edit for test in tests if test.dims == ("edit", "outcome") for edit in test.coords["edit"])
    for edit in edits:
        outcome = "changed" if edit == "elsewhere" else "as claimed"
        place_in_test = {"edit": edit, "outcome": outcome}
        words = "edited elsewhere: answer changes" if edit == "elsewhere" else f"edited ({edit}): changes as claimed"
        add(f"  {words}", lambda one, at=place_in_test: value(one.causal.get(name), at, share))  # type: ignore[misc]


def _control(one: Column, name: str, null: str) -> Measurement | None:
    found = one.controls.get(name, {}).get(null)
    return None if found is None else of_shown_head(one, found)


def of_shown_head(one: Column, measured: Measurement) -> Measurement:
    """Of a measure of every head, that of the head shown."""
    return own_head(one, measured) if isinstance(one, Inspected) else measured


def _coordinates(columns: Sequence[Column], name: str) -> list[tuple[str, Any]]:
    """Every (dim, label) that any column has a value for in a measurement of one dim, in order."""
    seen: dict[tuple[str, Any], None] = {}
    for one in columns:
        measurement = one.measured.get(name)
        if measurement is None or len(measurement.dims) != 1:
            continue
        (dim,) = measurement.dims
        for label, found in zip(measurement.coords[dim], measurement.values, strict=True):
            if not np.isnan(found):
                seen[dim, label] = None
    return list(seen)


def _cell(name: str, where: dict[str, Any], show: Callable[[Measurement], str]) -> Callable[[Column], str]:
    return lambda one: value(one.measured.get(name), where, show)


def value(measurement: Measurement | None, where: dict[str, Any], show: Callable[[Measurement], str]) -> str:
    """One value of a measurement as text, or a dash where there is no such value."""
    if measurement is None or any(
        dim not in measurement.dims or label not in measurement.coords[dim] for dim, label in where.items()
    ):
        return "–"
    return show(measurement.select(**where))


def _members(one: Column) -> Sequence[Inspected]:
    return one.members if isinstance(one, Shown) else [one]


def _shape(one: Column) -> str:
    model = _members(one)[0].run.config.model
    variants = " then ".join(dict.fromkeys(layer["variant"] for layer in model.attention))
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)}, {variants}"


def _trained(one: Column) -> str:
    members = _members(one)
    config = members[0].run.config
    if not config.steps:
        return f"no step: {config.preset or 'own config'}"
    if len(members) > 1:
        return f"mean of seeds {', '.join(str(member.run.config.seed) for member in members)}"
    return f"{members[0].run.step()} of {config.steps} steps, seed {config.seed}"


def _head(one: Column) -> str:
    if not isinstance(one, Inspected) or one.gold_mass is None:
        return "–"
    return "layer {}, head {}".format(*one.shown_head)


def _gold(one: Column, control: bool = False) -> Measurement | None:
    if isinstance(one, Shown):
        return one.measured.get("gold_mass-mismatched" if control else "gold_mass")
    return one.gold_mass_control if control else one.gold_mass


def _entropy_settings(m: Measurement) -> str:
    settings = m.settings
    kernel = settings.get("kernel", "linear")
    said = [f"α = {settings['alpha']:g}", "centred" if settings["centre"] else "not centred"]
    return ", ".join([*said, *([] if kernel == "linear" else [f"{kernel} kernel"])])


def share(m: Measurement | None) -> str:
    """A share with its interval, in percent, and its n."""
    if m is None or np.isnan(m.values):
        return "–"
    text = f"{float(m.values):.1%}"
    if m.low is not None and m.high is not None and not np.isnan(m.low):
        text += f" [{100 * float(m.low):.1f}, {100 * float(m.high):.1f}]"
    return text + _of(m)


def number(m: Measurement) -> str:
    """A number with its interval and its n."""
    if m.low is None or m.high is None or np.isnan(m.high):
        return f"{float(m.values):.3f}{_of(m)}"
    return f"{float(m.values):.3f} [{float(m.low):.3f}, {float(m.high):.3f}]{_of(m)}"


def _of(m: Measurement) -> str:
    """How many values a mean is of."""
    return "" if m.n is None else f" n={int(m.n)}"
