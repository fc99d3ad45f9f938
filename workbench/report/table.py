"""The summary table: a column for each run, and one for each config that was trained with several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from workbench.inspection import Inspected
from workbench.inspection.judged import Column, judged_claims, strongest_control
from workbench.inspection.seed_groups import seed_groups
from workbench.instruments.residual.dominant_rows import WITHOUT, has_dominant, without_dominant
from workbench.interventions import head_in_words
from workbench.judgement.words import claims
from workbench.measurement import Measurement, numbers
from workbench.measurement.controls import UNTRAINED, control_in_words
from workbench.measurement.places import place_in_words, point_name
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import where_in_words

CLAIMS_HEADING = (
    "each claim: how often it holds; whether that is beyond its controls (a further uninformed model would hardly hold "
    "it as often); whether the answers need it"
)

Row = tuple[str, list[str]]
Lines = list[tuple[str, list[list[str]]]]
"""A heading for each run, or config of several seeds, with its claims: each a line, and further lines under it."""

Add = Callable[[str, Callable[[Column], str]], None]
"""Adds a row to the table: a label, and the text for each column."""


def summarise(columns: Sequence[Column], cells: Sequence[Row]) -> str:
    """The table as text, then the verdicts on every claim.

    Args:
        columns: the runs and groups of seeds.
        cells: `rows(columns)`.
    """
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for one in columns:
        table.add_column(one.name, justify="right", no_wrap=True)
    for label, texts in cells:
        table.add_row(label, *texts)
    text = [as_text(table, 70 + 40 * len(columns))]
    if by_column := claim_lines(columns):
        text += ["", CLAIMS_HEADING]
    for name, lines in by_column:
        text += [name, *("  " + "\n    ".join(line) for line in lines)]
    return "\n".join(text)


def claim_lines(columns: Sequence[Column]) -> Lines:
    """Every claim in words, places with the same result in one line."""
    by_column: Lines = []
    for one in columns:
        lines = [line for claim in judged_claims(one) for line in claims.lines(claim)]
        heads = [where_in_words([member.head]) for member in one.members if member.head]
        if not _claims_of_heads(one):
            whose = ""
        elif len(one.members) == 1:
            whose = f", of {heads[0]}" if heads else ""
        else:
            whose = ", each seed's own head: " + "; ".join(heads)
        by_column += [(f"{one.name}{whose}", lines)] if lines else []
    return by_column


def as_text(table: Table, width: int) -> str:
    """A table as plain text, at most so many letters wide."""
    console = Console(file=StringIO(), width=width, no_color=True, markup=False)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


MOST_COLUMNS = 12  # of more runs, a table shows the means over seeds alone


def all_columns(inspected: Sequence[Inspected]) -> list[Column]:
    """Every run; several seeds of one config one after the other, and behind them their mean.

    Of more than `MOST_COLUMNS` runs the means alone, and runs that are the only seed of their config.
    """
    columns: list[Column] = []
    few = len(inspected) <= MOST_COLUMNS
    for one in seed_groups(inspected):
        columns += one.members if one.alone else [*(one.members if few else ()), one]
    return columns


def rows(columns: Sequence[Column]) -> list[Row]:
    """Every row of the table: a label, and a text for each column ("–" where it does not apply)."""
    table: list[Row] = []

    def add(label: str, cell: Callable[[Column], str]) -> None:
        table.append((label, [cell(one) for one in columns]))

    add("model", _shape)
    add("trained for", _trained)
    kinds = dict.fromkeys(member.sample.kind for one in columns for member in one.members)
    add(
        f"{' or '.join(kinds)} sequences",
        lambda one: "; ".join(dict.fromkeys(member.sample.in_words for member in one.members)),
    )
    _add_answers(add, columns)
    entropy = next((one["entropy"].mean for one in columns if "entropy" in one), None)
    if entropy is not None:
        centred = "centred" if entropy.settings["centre"] else "not centred"
        kernel = entropy.settings.get("kernel", "linear")
        how = f"α = {entropy.settings['alpha']:g}, {centred}" + ("" if kernel == "linear" else f", {kernel} kernel")
        add(f"matrix entropy ({entropy.units}; {how})", lambda one: "")
    for dim, point in _coordinates(columns, "entropy"):
        add(f"  {point_name(point)}", _cell("entropy", {dim: point}, number))
        others = {one.name: m for one in columns if (m := _without_dominant(one, "entropy", dim, point)) is not None}
        if others:
            add(f"    {WITHOUT}", lambda one, others=others: value(others.get(one.name), {}, number))  # type: ignore[misc]
    if any("gold_mass" in one and one["gold_mass"].controls for one in columns):
        add("mass on the task's true paths, best head", lambda one: share(_gold(one)))
        add("  which head (chosen on other sequences)", _head)
        if any("gold_mass" in one and "mismatched" in one["gold_mass"].controls for one in columns):
            add("  with shuffled truth", lambda one: share(_gold(one, "mismatched")))
        if any("gold_mass" in one and UNTRAINED in one["gold_mass"].controls for one in columns):
            add("  re-initialised models, each its best head", lambda one: share(_gold(one, UNTRAINED), of_draws=True))
    elif any(_claims_of_heads(one) for one in columns):
        add("head of the claims (chosen on other sequences)", _head)
    for name in MECHANISMS:
        _add_mechanism(add, columns, name)
    return table


def _without_dominant(one: Column, name: str, dim: str, label: Any) -> Measurement | None:
    """A measure at a place without the rows that dominate sequences there; None where none do."""
    if name not in one or label not in one[name].mean.coords[dim]:
        return None
    examples = one[name].examples.select(**{dim: label})
    return without_dominant(examples).mean() if has_dominant(examples) else None


def _add_answers(add: Add, columns: Sequence[Column]) -> None:
    """Rows of right answers, of the loss, and of decoded answers."""

    def perplexity(loss: Measurement) -> str:
        low, high = (None if end is None else np.exp(end) for end in (loss.low, loss.high))
        return number(replace(loss, values=np.exp(loss.values), low=low, high=high))

    if any("overall" in one for one in columns):
        for unit in ("position", "sequence"):
            add(f"accuracy, per {unit}", _cell("overall", {"unit": unit}, share))
    elif any("accuracy" in one for one in columns):
        add("accuracy", lambda one: "")
    for group, label in _coordinates(columns, "accuracy"):
        add(f"  {group} {label}", _cell("accuracy", {group: label}, share))
    for name in dict.fromkeys(one["loss"].mean.name for one in columns if "loss" in one):
        own = {one.name: one["loss"].mean for one in columns if "loss" in one and one["loss"].mean.name == name}
        for _, part in _coordinates([one for one in columns if one.name in own], "loss"):
            label = f"{name.lower()}{part.removeprefix('loss')} (nats)"
            add(label, lambda one, own=own, at={"part": part}: value(own.get(one.name), at, number))  # type: ignore[misc]
    if any("loss" in one and one.members[0].run.task().running_text for one in columns):
        add("perplexity", _cell("loss", {"part": "loss"}, perplexity))
    for name, words, show in DECODED:
        if any(name in one and not one[name].mean.dims for one in columns):
            add(words, _cell(name, {}, show))
        places = _coordinates(columns, name)
        if places:
            add(words, lambda one: "")
        for group, label in places:
            add(f"  {group} {label}", _cell(name, {group: label}, show))


def _add_mechanism(add: Add, columns: Sequence[Column], name: str) -> None:
    """A row for each place where the claim is read with its nearest control, then rows of its causal test."""
    scores = {one.name: one[name].at_head().mean for one in columns if name in one}
    if not scores:
        return
    first = next(iter(scores.values()))
    strongest = {one.name: strongest_control(one, name) for one in columns if one.name in scores}
    for index in np.ndindex(*first.values.shape):
        where = {dim: first.coords[dim][i] for dim, i in zip(first.dims, index, strict=True)}
        label = first.name + (f": {place_in_words(where)}" if where else "")
        add(label, lambda one, where=where: value(scores.get(one.name), where, share))  # type: ignore[misc]
        add("  nearest control", lambda one, where=where: value(strongest.get(one.name), where, _named))  # type: ignore[misc]
    causal = {one.name: test for one in columns if name in one and (test := one[name].causal) is not None}
    tests = {label: test.mean for label, test in causal.items()}
    plain = [test for test in tests.values() if test.dims == ("edit", "outcome")]
    edits = dict.fromkeys(edit for test in plain for edit in test.coords["edit"])
    kinds = dict.fromkeys(kind for test in causal.values() for kind in test.nulls)
    for edit in edits:
        outcome = "changed" if edit == "elsewhere" else "as claimed"
        place_in_test = {"edit": edit, "outcome": outcome}
        words = "edited elsewhere: answer changes" if edit == "elsewhere" else f"edited ({edit}): changes as claimed"
        add(f"  {words}", lambda one, at=place_in_test: value(tests.get(one.name), at, share))  # type: ignore[misc]
        for kind in kinds if edit == "claimed" else ():
            nulls = {label: test.nulls.get(kind) for label, test in causal.items()}
            add(f"    the same in {control_in_words(kind)}", lambda one, nulls=nulls: _counted(nulls.get(one.name)))  # type: ignore[misc]


def _counted(null: Measurement | None) -> str:
    """Of all right answers of uninformed models of a kind, how many change as claimed: `13 of 34 in 4 models`."""
    if null is None:
        return "–"
    done = null.select(edit="claimed", outcome="as claimed")
    assert done.n is not None
    return claims.tried([(float(np.nansum(done.values * done.n)), int(done.n.sum()))], len(done.n))


def _named(m: Measurement) -> str:
    """A control with its name: `re-initialised 14.2% (9.0 to 21.1)`, of draws their range; else its interval."""
    assert m.labels is not None
    control = str(m.labels)
    if not control:
        return "none"
    in_short = control_in_words(control, short=True)
    return f"{in_short} {share(m, of_draws=control == UNTRAINED)}"


def _coordinates(columns: Sequence[Column], name: str) -> list[tuple[str, Any]]:
    """Every (dim, label) at which any column has a value of a measurement with one dim, in order."""
    seen: dict[tuple[str, Any], None] = {}
    for one in columns:
        if name not in one or len(one[name].mean.dims) != 1:
            continue
        measurement = one[name].mean
        (dim,) = measurement.dims
        for label, number in zip(measurement.coords[dim], measurement.values, strict=True):
            if not np.isnan(number):
                seen[dim, label] = None
    return list(seen)


def _cell(name: str, where: dict[str, Any], show: Callable[[Measurement], str]) -> Callable[[Column], str]:
    return lambda one: value(one[name].mean if name in one else None, where, show)


def value(measurement: Measurement | None, where: dict[str, Any], show: Callable[[Measurement], str]) -> str:
    """One value of a measurement as text, or a dash where there is no such value."""
    if (
        measurement is None
        or (not where and measurement.dims)
        or any(dim not in measurement.dims or label not in measurement.coords[dim] for dim, label in where.items())
    ):
        return "–"
    return show(measurement.select(**where))


def _shape(one: Column) -> str:
    model = one.members[0].run.config.model
    variants = " then ".join(dict.fromkeys(layer["variant"] for layer in model.attention))
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)}, {variants}"


def _trained(one: Column) -> str:
    members = one.members
    config = members[0].run.config
    if not config.steps:
        return f"not trained here: {config.preset or 'own config'}"
    if len(members) > 1:
        return f"mean of seeds {', '.join(str(member.run.config.seed) for member in members)}"
    return f"{members[0].run.step()} of {config.steps} steps, seed {config.seed}"


def _head(one: Column) -> str:
    return "; ".join("–" if one.head is None else head_in_words(*one.head) for one in one.members)


def _claims_of_heads(one: Column) -> bool:
    first = one.members[0]
    return any(first[name].of_every_head for name in MECHANISMS if name in first)


def _gold(one: Column, control: str | None = None) -> Measurement | None:
    """Mass on gold paths of the head in focus, or of a control."""
    if "gold_mass" not in one:
        return None
    result = one["gold_mass"].at_head()
    if control is None:
        return result.mean
    return result.controls[control].mean if control in result.controls else None


def share(m: Measurement | None, *, of_draws: bool = False) -> str:
    """A share with its interval, in percent, and its n; or the mean of re-initialised models with the draws' range."""
    if m is None or np.isnan(m.values):
        return numbers.UNKNOWN
    if of_draws:
        return numbers.share_with_range(float(m.values), *m.ends)
    return numbers.share_with_interval(float(m.values), *m.ends) + _of(m)


def number(m: Measurement) -> str:
    """A number with its interval and its n."""
    return numbers.with_interval(float(m.values), *m.ends) + _of(m)


def _of(m: Measurement) -> str:
    """The end of a table entry, ` n=256`: the number of values that a mean is over; empty where it is not known."""
    return "" if m.n is None else f" n={int(m.n)}"


DECODED = (("exact_match", "exact match, decoded", share), ("edit_distance", "edit distance, decoded (tokens)", number))
"""Instruments of decoded answers, with their rows' words and how their numbers are written."""
