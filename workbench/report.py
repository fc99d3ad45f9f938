"""Runs measured and what was found written down: a table, a self-contained HTML page, the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs
from rich.console import Console
from rich.table import Table

from workbench import figures, runs
from workbench.figures.style import point_name
from workbench.files import write_atomically
from workbench.inspection import Inspected, inspect_run
from workbench.instruments import Measurement, attention_graph
from workbench.instruments.projection import top_tokens
from workbench.mechanisms import MECHANISMS
from workbench.timeline import Timeline, follow, timeline_section
from workbench.validation import harmless

Cell = Callable[[Inspected], str]


@dataclass(frozen=True)
class Report:
    """What an inspection leaves: the text that was printed, and the page it is on."""

    inspected: list[Inspected]
    summary: str
    html: Path
    timelines: list[Timeline]


def inspect(
    paths: Sequence[str | Path],
    *,
    out: str | Path | None = None,
    n: int = 256,
    seed: int = 0,
    timeline: bool = False,
    progress: bool = False,
) -> Report:
    """Measure one run, or several side by side; write `report.html` and, under `data/`, Parquet and JSON.

    Args:
        paths: run folders.
        out: where the report goes; by default `inspection` in the first run's folder.
        n: sequences to measure for each of the task's test conditions.
        seed: seed of those sequences; they come from other streams than training's.
        timeline: measure every checkpoint too, and draw everything over training.
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if a run cannot be opened, two have the same name, n is below 2, or a timeline is asked for of
            a run without checkpoints. Nothing is written then.
    """
    if n < 2:
        raise ValueError(f"an interval needs at least n=2 sequences, not {n}")
    opened = [runs.load_run(path) for path in paths]
    names = [run.name for run in opened]
    if len(set(names)) < len(names):
        raise ValueError(f"runs are told apart by their folders' names, but these are {', '.join(names)}")
    inspected = [inspect_run(run, n=n, seed=seed, progress=progress) for run in opened]
    timelines = [follow(one, n=n, seed=seed, progress=progress) for one in inspected] if timeline else []
    folder = Path(out) if out is not None else opened[0].path / "inspection"
    for one in inspected:
        data = folder / "data" / one.run.name
        data.mkdir(parents=True, exist_ok=True)
        for name, measurement in one.all().items():
            measurement.save(data, name)
    for followed in timelines:
        data = folder / "data" / followed.run.name / "timeline"
        data.mkdir(exist_ok=True)
        for name, measurement in followed.all().items():
            measurement.save(data, name)
    html = folder / "report.html"
    write_atomically(html, page(inspected, n=n, seed=seed, timelines=timelines).encode())
    return Report(inspected, summarise(inspected), html, timelines)


def summarise(inspected: Sequence[Inspected]) -> str:
    """One table, a column per run."""
    rows = _rows(inspected)
    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("", no_wrap=True)
    for one in inspected:
        table.add_column(one.run.name, justify="right", no_wrap=True)
    for label, cells in rows:
        table.add_row(label, *cells)
    console = Console(file=StringIO(), width=70 + 40 * len(inspected), no_color=True, markup=False)
    console.print(table)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def _rows(inspected: Sequence[Inspected]) -> list[tuple[str, list[str]]]:
    """The summary's rows: a label, and a figure for each run ("–" where it does not apply)."""
    rows: list[tuple[str, list[str]]] = []

    def add(label: str, cell: Cell) -> None:
        rows.append((label, [cell(one) for one in inspected]))

    add("model", _shape)
    add("trained for", _trained)
    for unit in ("position", "sequence"):
        add(f"accuracy, per {unit}", _cell("overall", {"unit": unit}, _share))
    for group, value in _coordinates(inspected, "accuracy"):
        add(f"  {group} {value}", _cell("accuracy", {group: value}, _share))
    add("matrix entropy (nats; α = 1, not centred)", lambda one: "")
    for dim, point in _coordinates(inspected, "entropy"):
        add(f"  {point_name(point)}", _cell("entropy", {dim: point}, _number))
    if any(one.gold_mass is not None for one in inspected):
        add("resolvent's mass on gold paths, best head", lambda one: _share(one.gold_mass))
        add("  which head (chosen on other data)", _head)
        add("  control: gold paths of other examples", lambda one: _share(one.gold_mass_control))
    for name in MECHANISMS:
        if any(name in one.measured for one in inspected):
            _add_mechanism(add, inspected, name)
    return rows


def _add_mechanism(add: Callable[[str, Cell], None], inspected: Sequence[Inspected], name: str) -> None:
    """A row per place where the claim is read, with its control; of several heads, the one best on other data."""
    pairs = {one.run.name: _of_shown_head(one, name) for one in inspected if name in one.measured}
    first = next(iter(pairs.values()))[0]
    for index in np.ndindex(*first.values.shape):
        where = {dim: first.coords[dim][i] for dim, i in zip(first.dims, index, strict=True)}
        place = ", ".join(point_name(label) if dim == "point" else f"{dim} {label}" for dim, label in where.items())

        def cell(one: Inspected, where: dict[str, Any] = where) -> str:
            held, control = (_value(m, where, _share) for m in pairs.get(one.run.name, (None, None)))
            return held if held == "–" else f"{held}, control {control.split()[0]}"

        add(first.name + (f": {place}" if place else ""), cell)


def _of_shown_head(one: Inspected, name: str) -> tuple[Measurement, Measurement]:
    """A mechanism's score and its control."""
    score, control = one.measured[name], one.controls[name]
    if "head" not in score.dims:
        return score, control
    head = dict(zip(("layer", "head"), one.shown_head, strict=True))
    return score.select(**head), control.select(**head)


def _coordinates(inspected: Sequence[Inspected], name: str) -> list[tuple[str, Any]]:
    """Every (dim, label) that any run has a value for in a measurement of one dim, in order."""
    seen: dict[tuple[str, Any], None] = {}
    for one in inspected:
        measurement = one.measured[name]
        (dim,) = measurement.dims
        for label, value in zip(measurement.coords[dim], measurement.values, strict=True):
            if not np.isnan(value):
                seen[dim, label] = None
    return list(seen)


def _cell(name: str, where: dict[str, Any], show: Callable[[Measurement], str]) -> Cell:
    """One value of a measurement as text, or a dash for a run that has no such value."""
    return lambda one: _value(one.measured.get(name), where, show)


def _value(measurement: Measurement | None, where: dict[str, Any], show: Callable[[Measurement], str]) -> str:
    if measurement is None or any(
        dim not in measurement.dims or label not in measurement.coords[dim] for dim, label in where.items()
    ):
        return "–"
    return show(measurement.select(**where))


def _shape(one: Inspected) -> str:
    model = one.run.config.model
    variants = " then ".join(dict.fromkeys(layer["variant"] for layer in model.attention))
    return f"{model.n_layers} layer{'s' * (model.n_layers > 1)}, {variants}"


def _trained(one: Inspected) -> str:
    if not one.run.config.steps:
        return f"no step ({one.run.config.preset or 'own config'}, seed {one.run.config.seed})"
    return f"{one.run.step()} of {one.run.config.steps} steps, seed {one.run.config.seed}"


def _head(one: Inspected) -> str:
    return "–" if one.gold_mass is None else "layer {}, head {}".format(*one.shown_head)


def _share(m: Measurement | None) -> str:
    if m is None or np.isnan(m.values):
        return "–"
    text = f"{float(m.values):.1%}"
    if m.low is not None and m.high is not None and not np.isnan(m.low):
        text += f" [{100 * float(m.low):.1f}, {100 * float(m.high):.1f}]"
    return text


def _number(m: Measurement) -> str:
    half = "" if m.high is None or np.isnan(m.high) else f" ± {float(m.high - m.values):.3f}"
    return f"{float(m.values):.3f}{half}"


def page(inspected: Sequence[Inspected], *, n: int, seed: int, timelines: Sequence[Timeline] = ()) -> str:
    """The report as one HTML page that needs nothing else."""
    names = [one.run.name for one in inspected]
    sections = [_section(title, text, drawn) for title, text, drawn in _figures(inspected)]
    sections += [_section(*timeline_section(followed)) for followed in timelines]
    table = "".join(
        f"<tr><th>{escape(label)}</th>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        for label, cells in _rows(inspected)
    )
    heads = "".join(f"<th>{escape(name)}</th>" for name in names)
    commands = "\n".join(
        harmless(f"{one.run.name}: {one.run.config.preset or 'own config'}, task ")
        + harmless(", ".join(f"{key}={value}" for key, value in one.run.config.task.items()))
        for one in inspected
    )
    made = f"n = {n} sequences per test condition, seed {seed}; workbench {version('workbench')}, "
    made += f"PyTorch {version('torch')}; {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return _PAGE.format(
        title=escape(" · ".join(names)),
        plotly=get_plotlyjs(),
        made=escape(made),
        heads=heads,
        table=table,
        runs=escape(commands),
        sections="\n".join(sections),
    )


def _figures(inspected: Sequence[Inspected]) -> list[tuple[str, str, list[go.Figure]]]:
    """Title, what it shows and does not, and the figures of every section."""
    sections: list[tuple[str, str, list[go.Figure]]] = []
    for name, draw in (("accuracy", figures.accuracy), ("entropy", figures.entropy)):
        drawn, caption = [], ""
        for dim in dict.fromkeys(one.measured[name].dims for one in inspected):
            same = {one.run.name: one.measured[name] for one in inspected if one.measured[name].dims == dim}
            drawn.append(draw(same))
            caption = next(iter(same.values())).caption
        sections.append((name.capitalize(), caption, drawn))
    claims = {
        one.run.name: [_of_shown_head(one, name) for name in MECHANISMS if name in one.measured] for one in inspected
    }
    if any(claims.values()):
        shown = {run: pairs for run, pairs in claims.items() if pairs}
        captions = dict.fromkeys(score.caption for pairs in shown.values() for score, _ in pairs)
        sections.append(("Mechanisms", " ".join(captions), [figures.mechanisms(shown)]))
    for one in inspected:
        if one.gold_mass is not None:
            sections.append(_graph_section(one))
    for one in inspected:
        table = top_tokens(one.example)
        maps = [figures.projection_map(table, basis) for basis in ("encoder", "decoder")]
        sections.append((f"Residual of one sequence on both bases: {one.run.name}", table.caption, maps))
    return sections


def _graph_section(one: Inspected) -> tuple[str, str, list[go.Figure]]:
    layer, head = one.shown_head
    matrices = attention_graph.matrices(one.example, 0, layer, head)
    gold = attention_graph.gold_edges(one.example, 0)
    drawn = [figures.gold_mass(one.measured["attention_graph"])]
    hops = one.measured["attention_hops"].select(layer=layer, head=head)
    if len(hops.coords["hop"]) > 1:
        drawn.append(figures.hops({one.run.name: hops}))
    drawn.append(figures.attention_arcs(matrices, "pattern", [edge for edge in gold if edge[0] == 1]))
    drawn.append(figures.attention_matrix(matrices, "pattern", gold))
    if not np.allclose(matrices.select(matrix="pattern").values, matrices.select(matrix="resolvent").values):
        drawn.append(figures.attention_matrix(matrices, "resolvent", gold))
    text = f"{one.measured['attention_graph'].caption} Drawn: layer {layer}, head {head}, on one sequence; the head "
    text += "with the most mass on gold paths on other data."
    return f"Attention against the task's graph: {one.run.name}", text, drawn


def _section(title: str, text: str, drawn: Sequence[go.Figure]) -> str:
    shown = "".join(
        figure.update_layout(template="plotly_white").to_html(
            full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True}
        )
        for figure in drawn
    )
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{shown}</section>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; }}
body {{ max-width: 1120px; margin: 2rem auto; padding: 0 1.5rem; }}
h1 {{ font-size: 1.6rem; margin-bottom: 0; }} h2 {{ font-size: 1.2rem; margin-top: 2.5rem; }}
p, pre {{ color: #555; max-width: 80ch; white-space: pre-wrap; }}
table {{ border-collapse: collapse; margin: 1.5rem 0; }}
th, td {{ padding: .2rem 1.2rem .2rem 0; text-align: right; border-bottom: 1px solid #e5e5e5; }}
th:first-child {{ text-align: left; font-weight: 400; white-space: pre; }}
td {{ font-variant-numeric: tabular-nums; }}
</style>
<script>{plotly}</script></head>
<body><h1>{title}</h1><p>{made}</p>
<table><tr><th></th>{heads}</tr>{table}</table>
<pre>{runs}</pre>
{sections}
</body></html>"""
