"""A measure of two runs, checkpoints or inputs beside each other, with their difference below."""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.any_measure import place_names
from workbench.figures.curves import Runs, interval, sample_size, scaled
from workbench.figures.runs_and_controls import dots
from workbench.figures.style import GREY, PALETTE, PURPLE, SYMBOLS, framed, ordered_union
from workbench.instruments.lens import lens_difference
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import ROUNDING
from workbench.measurement.places import POINTS, point_name


def with_difference(runs: Runs, apart: Measurement) -> go.Figure:
    """A measure of two sides, and below it the second less the first with its interval and a line at zero.

    Differences whose interval leaves out 0 have filled markers. Where only one side was measured there is none.

    Args:
        runs: two names -> the same measure of each, averaged over examples. Over a single dim that has an order
            (layers, hops, lengths) it is drawn as lines, else as bars, one for each place.
        apart: their difference (`compare_runs.difference`).
    """
    assert len(runs) == 2, f"a difference is of two, not of {len(runs)}"
    first = next(iter(runs.values()))
    apart = replace(apart, name=first.name)  # a single number stands under the same label in both rows
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.6, 0.4], vertical_spacing=0.07)
    for i, (name, m) in enumerate(runs.items()):
        for trace in [*_seeds(m, PALETTE[i] if _in_order(m) else GREY, name), _side(m, name, i)]:
            figure.add_trace(trace, row=1, col=1)
    for trace in [*_seeds(apart, PURPLE), _below(apart)]:
        figure.add_trace(trace, row=2, col=1)
    figure.add_hline(y=0, row=2, col=1, line={"color": GREY, "width": 1.5, "dash": "dash"})
    one, other = runs
    about, below = "single inputs: there is no interval", f"below: {other} minus {one}"
    if max(map(_most, runs.values())) > 1:
        paired = "in pairs, over the same sequences" if apart.settings.get("paired") else "not paired: other sequences"
        about, below = sample_size(runs, bars=True), f"{below}, {paired}; filled: the interval excludes 0"
    framed(figure, first.name, f"{about}<br>{below}", height=600 if _in_order(first) else 500)
    figure.update_layout(margin={"t": 106, "l": 84}, barmode="group", bargap=0.45, scattermode="group")
    shares = first.units == "share"
    figure.update_yaxes(title=first.units, row=1, **({"range": [-0.03, 1.03], "tickformat": ".0%"} if shares else {}))
    figure.update_yaxes(title="difference", row=2, **({"tickformat": ".0%"} if shares else {}))
    return _axis(figure, list(runs.values()))


def _side(m: Measurement, name: str, i: int) -> Any:
    """One side's line, or its bars where the places have no order."""
    known = ~np.isnan(m.values.reshape(-1))
    shown: dict[str, Any] = {"x": list(compress(_labels(m), known)), "y": m.values.reshape(-1)[known], "name": name}
    if not _in_order(m):
        bars, look = {**(_bars(m) or {}), "color": GREY}, {"color": PALETTE[i], "pattern": {"shape": ("", "/")[i]}}
        return go.Bar(**shown, error_y=bars, offsetgroup=name, marker=look)
    shown |= {"mode": "lines+markers", "line": {"color": PALETTE[i], "width": 2.5}}
    return go.Scatter(**shown, error_y=_bars(m), marker={"symbol": SYMBOLS[i], "size": 8})


def _seeds(m: Measurement, colour: str, name: str | None = None) -> list[go.Scatter]:
    """Each seed's dots, on the bars of their side where it is bars that are drawn."""
    known = ~np.isnan(m.values.reshape(-1))
    group = None if _in_order(m) else name
    return dots(m, list(compress(_labels(m), known)), colour, known, group=group)


def _below(apart: Measurement) -> go.Scatter:
    known = ~np.isnan(apart.values.reshape(-1))
    y = apart.values.reshape(-1)
    sure = np.zeros(len(y), dtype=bool)
    if apart.low is not None and apart.high is not None and _most(apart) > 1:
        sure = (apart.low.reshape(-1) > ROUNDING) | (apart.high.reshape(-1) < -ROUNDING)
    return go.Scatter(
        x=list(compress(_labels(apart), known)),
        y=y[known],
        error_y=_bars(apart),
        name="difference",
        alignmentgroup="difference",  # below the middle of the two bars
        mode="lines+markers" if _in_order(apart) else "markers",
        line={"color": PURPLE, "width": 2},
        marker={"symbol": np.where(sure, "diamond", "diamond-open")[known], "size": 9, "color": PURPLE},
    )


def _bars(m: Measurement) -> dict[str, Any] | None:
    """Error bars of the values that are known; none where each value comes from a single example."""
    return None if _most(m) < 2 else interval(m, ~np.isnan(m.values))


def _most(m: Measurement) -> int:
    """The largest number of examples that any value is a mean over."""
    return 1 if m.n is None or not m.n.size else int(m.n.max())


def _in_order(m: Measurement) -> bool:
    if len(m.dims) != 1:
        return False
    return m.dims[0] in POINTS or all(isinstance(label, int | float) for label in m.coords[m.dims[0]])


def _labels(m: Measurement) -> list[Any]:
    """What stands under each value: a number, the name of a point, or a place in words."""
    if _in_order(m):
        dim = m.dims[0]
        return [point_name(label) if dim in POINTS else label for label in m.coords[dim]]
    return place_names(m, m.name)


def _axis(figure: go.Figure, sides: list[Measurement]) -> go.Figure:
    """Names along the axes, the title under the lowest."""
    known = [~np.isnan(m.values.reshape(-1)) for m in sides]
    labels = ordered_union([list(compress(_labels(m), there)) for m, there in zip(sides, known, strict=True)])
    first = sides[0]
    if _in_order(first) and first.dims[0] not in POINTS:
        figure.update_xaxes(**({"tickvals": labels} if len(labels) <= 32 else {}))
        title = first.dims[0]
    else:
        figure.update_xaxes(type="category", categoryorder="array", categoryarray=labels)
        title = "point of the residual" if _in_order(first) else ""
    lowest = list(figure.select_xaxes())[-1]
    lowest.update(title=title)
    return figure


def lens_difference_by_layer(found: Measurement) -> go.Figure:
    """How far what two models decode from the same layer lies apart, from the embedding up.

    Args:
        found: `lens_difference.measure(...)` or `pairs.lens_differences(...)`, averaged over examples.
    """
    figure = go.Figure(_side(found, found.settings["model"], 0))
    about = f"{found.settings['model']}; {sample_size({'': found})} at scored positions; bars are 95 % intervals"
    framed(figure, f"Decoded from each layer: {lens_difference.HOW[found.settings['how']][2]}", about, legend=False)
    return _axis(scaled(figure.update_yaxes(title=found.units), found), [found])
