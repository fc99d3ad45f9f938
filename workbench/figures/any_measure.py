"""Any measurement as a figure: lines where there are few, else a map. For instruments without a figure of their own."""

from __future__ import annotations

from itertools import product
from typing import Any

import plotly.graph_objects as go

from workbench.figures.curves import add_line, curves, interval, sample_size, scaled
from workbench.figures.runs_and_controls import Controls, Runs, controls_of, dots, each_control
from workbench.figures.style import DASHES, GREY, PALETTE, SHADES, cells, framed
from workbench.measurement import Measurement
from workbench.measurement.places import point_name

IN_ORDER = ("step", "length", "operations", "operators", "depth", "hop", "digit", "rank", "point", "layer", "position")
MOST_LINES = 8


def any_measure(runs: Runs, controls: Controls) -> list[go.Figure]:
    """A measurement of any dims: the first of `IN_ORDER` that it has goes along the axis, the rest become lines.

    What has no order is drawn as bars, a group for each label, or for the single number: every run, and hatched beside
    it its controls.
    """
    first = next(iter(runs.values()))
    along = next((dim for dim in IN_ORDER if dim in first.dims), None)
    if along is not None and all(len(m.coords[along]) == 1 for m in runs.values()):  # a single label is no axis
        there = {along: first.coords[along][0]}
        runs = {run: m.select(**there) for run, m in runs.items()}
        controls, along = each_control(controls, lambda m: m.select(**there)), None
    if along is not None and len(first.dims) == 1:
        subtitle = sample_size(runs, bars=True) + ("; dashed: controls" if controls else "")
        return [curves(runs, first.name, first.units, subtitle, controls)]
    if along is not None:
        return [of_run(run, m, along, controls_of(run, controls)) for run, m in runs.items()]
    figure = go.Figure()
    for i, (run, m) in enumerate(runs.items()):
        hatches = ("", "/", ".", "x")
        for (null, drawn), hatch in zip({"": m, **controls_of(run, controls)}.items(), hatches, strict=False):
            labels = place_names(drawn, first.name)
            marker = {"color": PALETTE[i % len(PALETTE)], "opacity": 0.5 if null else 1.0, "pattern": {"shape": hatch}}
            name = f"{run}, {null}" if null else run
            values, error = drawn.values.reshape(-1), interval(drawn)
            figure.add_bar(x=labels, y=values, error_y=error, name=name, marker=marker, offsetgroup=name)
            figure.add_traces(dots(drawn, labels, GREY, group=name))
    subtitle = sample_size(runs, bars=True) + ("; hatched: controls" if controls else "")
    framed(figure, first.name, subtitle).update_layout(barmode="group", bargap=0.35, scattermode="group")
    return [scaled(figure.update_yaxes(title=first.units), first)]


def place_names(m: Measurement, alone: str) -> list[str]:
    """Where each value is, in words, in the order of `m.values.reshape(-1)`; a single number is called `alone`."""
    return [", ".join(map(place_name, m.dims, labels)) or alone for labels in product(*(m.coords[d] for d in m.dims))]


def of_run(run: str, m: Measurement, along: str, controls: Runs) -> go.Figure:
    """One run over one dim; the other dims' labels are lines, or where they are many the rows of a map."""
    lines = split(m, along)
    subtitle = f"{run}; {sample_size({run: m}, bars=True)}"
    points = along in ("layer", "point") and all(isinstance(label, str) for label in m.coords[along])
    figure, axis = go.Figure(), {"title": "point of the residual" if points else along}
    if len(lines) > MOST_LINES:
        figure.add_heatmap(
            z=[line.values for line in lines.values()],
            x=tick_labels(next(iter(lines.values()))),
            y=list(lines),
            **cells(SHADES, m.units, share=m.units == "share"),
            hovertemplate="%{y}, " + axis["title"] + " %{x}: %{z:.3f}<extra></extra>",
        )
        framed(figure, m.name, subtitle, height=190 + min(900, 24 * len(lines)), legend=False, of=run)
        figure.update_xaxes(**axis, type="category")
        return figure.update_yaxes(autorange="reversed", automargin=True, type="category")
    for i, (label, line) in enumerate(lines.items()):
        colour = PALETTE[i % len(PALETTE)]
        add_line(figure, line, tick_labels(line), label, colour, dash=DASHES[0], size=6)
        for j, (name, control) in enumerate(controls.items(), 1):
            at, look = split(control, along)[label], dict[str, Any]({"main": False, "dash": DASHES[1 + j % 3]})
            add_line(figure, at, tick_labels(at), f"{label}, {name}", colour, width=1.5, size=4, **look)
    framed(figure, m.name, subtitle + ("; dashed: controls" if controls else ""), of=run)
    figure.update_xaxes(**axis, type="category" if along in ("layer", "point") else None)
    return scaled(figure.update_yaxes(title=m.units), m)


def split(m: Measurement, along: str) -> dict[str, Measurement]:
    """One measurement of the single dim `along` for each combination of the other dims' labels."""
    others = [dim for dim in m.dims if dim != along]
    return {
        ", ".join(map(place_name, others, labels)): m.select(**dict(zip(others, labels, strict=True)))
        for labels in product(*(m.coords[dim] for dim in others))
    }


def place_name(dim: str, label: Any) -> str:
    """`layer 0`, `after attention 0`, or a label that speaks for itself."""
    return point_name(label) if isinstance(label, str) else f"{dim} {label}"


def tick_labels(line: Measurement) -> list[Any]:
    (dim,) = line.dims
    return [point_name(label) if isinstance(label, str) else label for label in line.coords[dim]]
