"""Figures of studies: a quantity by group, along a setting, and over training with the range of its seeds.

Plotly is imported where something is drawn: a study also trains and measures on machines that do not have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.places import place_in_words
from workbench.studies.contrasts import OVER_TRAINING
from workbench.studies.study import Figure, Groups, Published
from workbench.util.lookup import lookup


def by_group(
    groups: Groups,
    quantity: str,
    title: str,
    *,
    at: Mapping[str, Any] | None = None,
    published: Sequence[Published] = (),
) -> Figure:
    """One quantity of every group as bars, with a dot for each seed and a line for what was published.

    Args:
        groups: the means over seeds.
        quantity: what is drawn; groups without it are left out.
        title: of the figure.
        at: dim -> coordinate, where the quantity has dims.
        published: the paper's figures; those of this quantity at this place are drawn.
    """
    import plotly.graph_objects as go

    from workbench.figures.curves import interval, sample_size
    from workbench.figures.runs_and_controls import dots
    from workbench.figures.style import BLUE, VERMILLION, faint, framed

    at = dict(at or {})
    shown = {name: own.select(**at) for name, own in _having(groups, quantity).items()}
    if dims := next(iter(shown.values())).dims:
        raise ValueError(f"{quantity} has the dims {', '.join(dims)}: say at which coordinates to draw it, in `at`")
    figure = go.Figure()
    for name, mean in shown.items():
        bar = {"marker": {"color": faint(BLUE, 0.55)}, "error_y": interval(mean), "showlegend": False}
        figure.add_bar(x=[name], y=np.atleast_1d(mean.values), **bar)
        figure.add_traces(dots(mean, [name], BLUE))
    here = [one for one in published if one.quantity == quantity and dict(one.at) == at and one.group in shown]
    if drawn := {one.group: one.value for one in here}:
        marks = {"symbol": "line-ew-open", "size": 44, "color": VERMILLION, "line": {"width": 3}}
        line = {"mode": "markers", "marker": marks, "name": "as published, at the paper's scale"}
        figure.add_scatter(x=list(drawn), y=list(drawn.values()), **line)
    framed(figure, title, f"{sample_size(shown)}; whiskers are 95 % intervals", legend=bool(drawn))
    return _y_axis(figure, next(iter(shown.values())), f"{quantity}, {place_in_words(at)}" if at else quantity)


def by_setting(lines: Mapping[str, Mapping[float, Measurement]], title: str, x_title: str, quantity: str) -> Figure:
    """One quantity along a setting, its values evenly spaced: means over seeds with intervals, a dot for each seed.

    Args:
        lines: name of a line -> value of the setting -> the mean over seeds.
        title, x_title: of the figure.
        quantity: what is drawn.
    """
    import plotly.graph_objects as go

    from workbench.figures.curves import interval, sample_size
    from workbench.figures.runs_and_controls import dots
    from workbench.figures.style import PALETTE, framed

    figure, shown = go.Figure(), {}
    places = sorted({place for line in lines.values() for place in line})
    for i, (name, line) in enumerate((name, line) for name, line in lines.items() if line):
        colour, own = PALETTE[i % len(PALETTE)], sorted(line)
        for place in own:
            figure.add_traces(dots(line[place], [f"{place:g}"], colour))
        shown[name] = joined = Measurement.stack([line[place] for place in own], x_title, own)
        figure.add_scatter(
            x=[f"{place:g}" for place in own],
            y=joined.values,
            error_y=interval(joined),
            mode="lines+markers",
            line={"color": colour, "width": 2.5},
            name=name,
            showlegend=len(lines) > 1,
        )
    framed(figure, title, f"{sample_size(shown)}; whiskers are 95 % intervals", legend=len(lines) > 1)
    order = [f"{place:g}" for place in places]
    figure.update_xaxes(title=x_title, type="category", categoryorder="array", categoryarray=order)
    return _y_axis(figure, next(iter(shown.values())), quantity)


def over_training(groups: Groups, quantity: str, title: str, at: Mapping[str, Any] | None = None) -> Figure:
    """A quantity over the training steps: the mean over seeds as a line, lowest to highest seed as a band."""
    import plotly.graph_objects as go

    from workbench.figures.curves import sample_size
    from workbench.figures.style import PALETTE, faint, framed

    figure = go.Figure()
    shown = {name: mean.select(**(at or {})) for name, mean in _having(groups, quantity).items()}
    for i, (name, mean) in enumerate(shown.items()):
        colour, steps = PALETTE[i % len(PALETTE)], list(mean.coords["step"])
        if mean.each is not None:
            band = [*mean.each.max(-1), *mean.each.min(-1)[::-1]]
            figure.add_scatter(
                x=[*steps, *steps[::-1]],
                y=band,
                mode="lines",
                fill="toself",
                fillcolor=faint(colour, 0.18),
                line={"width": 0},
                hoverinfo="skip",
                showlegend=False,
            )
        figure.add_scatter(x=steps, y=mean.values, mode="lines", line={"color": colour, "width": 2.5}, name=name)
    means = sample_size({name: replace(mean, each=None) for name, mean in shown.items()})
    framed(figure, title, f"{means}; bands: from the lowest to the highest seed")
    figure.update_xaxes(title="training step")
    what = quantity.removesuffix(OVER_TRAINING)
    return _y_axis(figure, next(iter(shown.values())), f"{what}, {place_in_words(at)}" if at else what)


def by_dim(groups: Groups, quantity: str, title: str, y_title: str) -> Figure:
    """A quantity of a single dim (length, digit, layer), a line for each group.

    Lines over numbers are moved a little apart, each with its dots, so that whiskers can be told from each other.
    """
    from workbench.figures.curves import curves, sample_size

    shown = _having(groups, quantity)
    figure = curves(shown, title, y_title, f"{sample_size(shown)}; whiskers are 95 % intervals")
    places = sorted({x for trace in figure.data for x in trace.x})
    if len(places) < 2 or not all(isinstance(x, (int, float)) for x in places):
        return figure
    lines = list(dict.fromkeys(trace.line.color or trace.marker.color for trace in figure.data))
    step = 0.4 * min(np.diff(places)) / len(lines)
    for trace in figure.data:
        shift = step * (lines.index(trace.line.color or trace.marker.color) - (len(lines) - 1) / 2)
        trace.update(
            x=[x + shift for x in trace.x], customdata=trace.x, hovertemplate="%{customdata}: %{y}<extra></extra>"
        )
    return figure


def _having(groups: Groups, quantity: str) -> dict[str, Measurement]:
    """Group -> its mean of a quantity, of those that have it. Raises ValueError if none does."""
    lookup({name: None for own in groups.values() for name in own}, quantity, "quantity")
    return {name: own[quantity] for name, own in groups.items() if quantity in own}


def _y_axis(figure: Figure, first: Measurement, quantity: str) -> Figure:
    if first.units == "share":
        return figure.update_yaxes(title=quantity, range=[-0.03, 1.05], tickformat=".0%")
    return figure.update_yaxes(title=f"{quantity} ({first.units})" if first.units else quantity, rangemode="tozero")
