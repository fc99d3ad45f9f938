"""Probes beside their controls: one place of the residual, all of them, several labels, and whether they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.curves import add_line, interval, sample_size
from workbench.figures.runs_and_controls import dots
from workbench.figures.style import (
    BLUE,
    DASHES,
    GREEN,
    GREY,
    ORANGE,
    PALE,
    PALETTE,
    PURPLE,
    SKY,
    SYMBOLS,
    VERMILLION,
    cells,
    framed,
)
from workbench.measurement import Measurement
from workbench.measurement.numbers import number
from workbench.measurement.places import point_name

BROWN = "#8C510A"  # beside the palette, which has one colour too few
COLOURS = (BLUE, PURPLE, ORANGE, VERMILLION, BROWN, GREEN, GREY, SKY)
HATCHES = ("", ".", "/", "|", "+", "-", "x", "\\")
LINES = ("solid", "dot", "dash", "6px,2px,2px,2px", "2px,6px", "dashdot", "longdash", "longdashdot")
MARKS = (*SYMBOLS, "star", "hexagon")
LAYERS = "point of the residual"
BASELINE = "current token"  # the condition that is drawn beside the probe of each run


def probe_card(measured: Measurement) -> go.Figure:
    """The share decoded at one place by a probe, and below it each control: bars with their intervals.

    Args:
        measured: `probes.probe(...)` over the single dim `condition`, whose first label is the probe itself.
    """
    kept = ~np.isnan(measured.values)
    names = [str(name) for name, keep in zip(measured.coords["condition"], kept, strict=True) if keep]
    bars = interval(measured, kept)
    figure = go.Figure()
    figure.add_bar(
        x=measured.values[kept],
        y=names,
        orientation="h",
        error_x=None if bars is None else {**bars, "color": GREY},
        marker={
            "color": [COLOURS[i] for i in np.flatnonzero(kept)],
            "opacity": [1.0] + [0.6] * (len(names) - 1),
            "pattern": {"shape": [HATCHES[i] for i in np.flatnonzero(kept)]},
        },
        hovertemplate=f"%{{y}}: %{{x:{_format(measured, 1)}}}<extra></extra>",
    )
    figure.add_traces(dots(measured, names, GREY, kept, across=True))
    ends = measured.values if measured.high is None else np.fmax(measured.values, measured.high)
    figure.add_scatter(  # clear of the bars' intervals
        x=ends[kept] + 0.01,
        y=names,
        mode="text",
        cliponaxis=False,
        text=[_number(value, measured) for value in measured.values[kept]],
        textposition="middle right",
        hoverinfo="skip",
    )
    framed(figure, named(measured), about(measured), height=190 + 44 * len(names), legend=False)
    what = "share of labels decoded" if measured.units == "share" else "R²"
    figure.update_xaxes(title=f"{what} on held-out sequences", tickformat=_format(measured))
    if measured.units == "share":
        figure.update_xaxes(range=[0, 1.1])
    return figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False)


def probe_by_layer(measured: Measurement) -> go.Figure:
    """The share that a probe decodes at each point, from the embedding up through the layers, its controls dashed.

    Args:
        measured: `probes.probe(...)` over the dims `point`, `condition`, whose first label is the probe itself.
    """
    figure = go.Figure()
    x = [point_name(point) for point in measured.coords["point"]]
    _add_conditions(figure, measured, x, measured.coords["condition"])
    framed(figure, f"{named(measured)}, by layer", about(measured), height=460)
    _share_axis(figure, measured)
    return figure.update_xaxes(title=LAYERS, type="category", categoryorder="array", categoryarray=x)


def probe_runs(runs: Mapping[str, Measurement]) -> go.Figure:
    """The same probe on several runs: a line each, and their baseline in the same colour, dashed.

    Args:
        runs: name -> `probes.probe(...)` over the dims `point`, `condition`.
    """
    first = next(iter(runs.values()))
    figure = go.Figure()
    for i, (run, measured) in enumerate(runs.items()):
        for part, dash in ((measured.coords["condition"][0], "solid"), (BASELINE, DASHES[1])):
            line = measured.select(condition=part)
            x = [point_name(point) for point in measured.coords["point"]]
            name, look = run, dict[str, Any]({"dash": dash, "symbol": SYMBOLS[i % len(SYMBOLS)]})
            if dash != "solid":
                name, look = f"{run}, {BASELINE}", look | {"main": False, "width": 1.5, "mode": "lines"}
            add_line(figure, line, x, name, PALETTE[i % len(PALETTE)], **look)
    longest = [point_name(p) for p in max((measured.coords["point"] for measured in runs.values()), key=len)]
    framed(figure, f"{named(first)}, run by run", about(first, whose=""), height=460)
    _share_axis(figure, first)
    return figure.update_xaxes(title=LAYERS, type="category", categoryorder="array", categoryarray=longest)


def probe_map(measured: Measurement) -> go.Figure:
    """The share that a probe decodes at every point (rows) and place, or of every label: a heat map with its numbers.

    The hover text of a cell has the number of every condition.

    Args:
        measured: `probes.probe(...)` over `point`, `condition` and one of `place`, `label`.
    """
    (across,) = (dim for dim in measured.dims if dim not in ("point", "condition"))
    points, columns = measured.coords["point"], [str(c).replace("_", " ") for c in measured.coords[across]]
    parts = {name: measured.select(condition=name) for name in measured.coords["condition"]}
    tables = {name: m.values if m.axis("point") == 0 else m.values.T for name, m in parts.items()}  # a row a point
    probed, *_ = tables.values()
    rows = [point_name(point) for point in points]

    def all_conditions(i: int, j: int) -> str:
        return ", ".join(f"{name} {_number(table[i, j], measured)}" for name, table in tables.items())

    figure = go.Figure()
    figure.add_heatmap(
        z=probed,
        x=columns,
        y=rows,
        text=[["" if np.isnan(v) else _number(v, measured, 0) for v in row] for row in probed],
        texttemplate="%{text}" if len(columns) <= 32 else None,
        textfont={"color": "#222"},
        customdata=[[all_conditions(i, j) for j in range(len(columns))] for i in range(len(rows))],
        hovertemplate="%{y}, %{x}: %{customdata}<extra></extra>",
        **cells(PALE, measured.units, share=True, gap=2, tickformat=_format(measured)),
    )
    framed(figure, named(measured), about(measured, bars=False), height=200 + 34 * len(rows), legend=False)
    title = "label" if across == "label" else "position" if all(c.isdecimal() for c in columns) else "where"
    figure.update_xaxes(title=title, type="category", showgrid=False)
    y_axis = {"title": LAYERS, "autorange": "reversed", "automargin": True}
    return figure.update_yaxes(type="category", showgrid=False, **y_axis)


def probe_use(effect: Measurement) -> go.Figure:
    """How a model's answers change when what a probe reads is changed, beside control edits that should do nothing.

    Args:
        effect: `probes.causal_test(...)[place].effect`: dims `edit`, `outcome`.
    """
    edits, outcomes = list(effect.coords["edit"]), list(effect.coords["outcome"])
    figure = go.Figure()
    for i, (outcome, colour) in enumerate(zip(outcomes, (BLUE, ORANGE, GREEN), strict=True)):
        part = effect.select(outcome=outcome)
        if np.isnan(part.values).all():
            continue
        bars, at = interval(part), np.arange(len(edits)) + 0.18 * (i - 1)
        figure.add_traces(dots(part, list(at), colour, across=True))
        figure.add_scatter(
            x=part.values,
            y=at,
            error_x=bars,
            name=outcome,
            mode="markers",
            marker={"color": colour, "symbol": SYMBOLS[i], "size": 10},
            customdata=edits,
            hovertemplate=f"%{{customdata}}, {outcome}: %{{x:.1%}}<extra></extra>",
        )
    settings = effect.settings
    where = f"{settings['place']}, {point_name(settings['point'])}, {settings['directions']} directions"
    subtitle = f"{settings['model']}: {settings['how']} at {where}; {sample_size({'': effect}, bars=True)}"
    framed(figure, effect.name, subtitle, height=220 + 56 * len(edits))
    figure.update_yaxes(tickvals=list(range(len(edits))), ticktext=edits, range=[len(edits) - 0.5, -0.5])
    figure.update_yaxes(automargin=True)
    return figure.update_xaxes(title="share of the answers", range=[-0.03, 1.03], tickformat=".0%")


def probe_learning(curve: Measurement, bits: Measurement | None = None) -> go.Figure:
    """The share decoded by the number of sequences fitted on; beside each name, how many bits a label costs.

    Args:
        curve: `probes.description_length(...).curve` at one point: dims `condition`, `fitted`.
        bits: `….bits` there: dim `condition`.
    """
    figure = go.Figure()
    names = [
        name if bits is None else f"{name}: {number(float(bits.select(condition=name).values), bits.units)}"
        for name in curve.coords["condition"]
    ]
    _add_conditions(figure, curve, list(curve.coords["fitted"]), names)
    framed(figure, curve.name, about(curve), height=460)
    figure.update_xaxes(title="sequences that the probe was fitted on", type="log")
    figure.update_xaxes(tickvals=list(curve.coords["fitted"]))
    _share_axis(figure, curve)
    return figure


def _add_conditions(figure: go.Figure, measured: Measurement, x: Sequence[Any], names: Sequence[str]) -> None:
    """Draw a line for each condition that has values; the probe's own line is the thickest."""
    for i, (condition, name) in enumerate(zip(measured.coords["condition"], names, strict=True)):
        line = measured.select(condition=condition)
        if np.isnan(line.values).all():
            continue
        look: dict[str, Any] = {"dash": LINES[i], "symbol": MARKS[i]}
        add_line(figure, line, x, name, COLOURS[i], width=1.5 if i else 2.5, size=6 if i else 9, **look)


def named(measured: Measurement) -> str:
    """The kind of probe, and for what, where that is one label."""
    label = measured.settings.get("label")
    joint = " of" if measured.units == "R²" else " for"
    return measured.name if label is None else f"{measured.name}{joint} {str(label).replace('_', ' ')}"


def about(measured: Measurement, whose: str | None = None, bars: bool = True) -> str:
    """The subtitle: whose residual, which positions, and how many sequences."""
    settings: Mapping[str, Any] = measured.settings
    model = f"{settings['model']}, " if whose is None else whose
    at = f"{point_name(settings['point'])}, " if "point" not in measured.dims and "point" in settings else ""
    where = positions_in_words(settings.get("place", settings["positions"]))
    end = "; bars are 95 % intervals" if bars and measured.low is not None else ""
    return f"{model}{at}{where}; {settings['kind'].replace('_', ' ')}; {sample_size({'': measured})}{end}"


def positions_in_words(rule: Any) -> str:
    """A rule for positions, or one of its places, for people."""
    if not isinstance(rule, str) or rule.isdecimal():
        return f"position {rule}"
    return WHERE.get(rule, rule)


WHERE = {
    "labelled": "every labelled position",
    "each": "position by position",
    "scored": "every scored position",
    "delimiter": "at the delimiter",
    "outputs": "every output",
    "each output": "output by output",
    "clauses": "at the end of each clause",
    "box *": "where each box is asked for",
}


def _format(measured: Measurement, digits: int = 0) -> str:
    return f".{digits}%" if measured.units == "share" else ".2f"


def _number(value: float, measured: Measurement, digits: int = 1) -> str:
    return "–" if np.isnan(value) else format(value, _format(measured, digits))


def _share_axis(figure: go.Figure, measured: Measurement) -> None:
    figure.update_yaxes(
        title="share decoded" if measured.units == "share" else measured.units, tickformat=_format(measured)
    )
    if measured.units == "share":
        figure.update_yaxes(range=[-0.03, 1.05])
