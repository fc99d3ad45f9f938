"""Swaps of the residual between two inputs, at every pair of layers, as a map."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.figures.style import PALE, framed, literal
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.measurement.places import point_name

BAR = {"title": {"text": "probability of the source's answer", "side": "right"}, "thickness": 12, "outlinewidth": 0}


def swap(m: Measurement) -> go.Figure:
    """The probability of the source's answer after each swap, with the target's answer in every cell.

    Args:
        m: `interventions.swap(...)`.
    """
    own, random, untouched = (m.select(run=run) for run in ("swapped", "random", "untouched"))
    assert own.labels is not None and untouched.labels is not None
    points = [point_name(point) for point in m.coords["from"]]
    figure = go.Figure()
    figure.add_heatmap(
        z=own.values,
        x=points,
        y=points,
        text=literal(own.labels),
        customdata=random.values,
        texttemplate="%{text}" if len(points) <= 16 else None,
        colorscale=PALE,
        zmin=0,
        zmax=1,
        xgap=1,
        ygap=1,
        colorbar=BAR,
        hovertemplate="from %{y}, into %{x}: says %{text}<br>source's answer: %{z:.3f}; "
        "by random sequences' residuals: %{customdata:.3f}<extra></extra>",
    )
    source, target, read = (
        f"{m.settings[f'{place}_position']}:{literal(m.settings[f'{place}_token'])}"
        for place in ("source", "target", "read")
    )
    said = (
        f"{m.settings['model']}: the source says {literal(m.settings['answer'])} at {source}; the target, untouched, "
        f"{literal(untouched.labels.flat[0])} at {read}; put in at {target}<br>probability of the source's answer: "
        f"untouched {percent(untouched.values.flat[0])}; by random sequences' residuals at most "
        f"{percent(random.values.max())}"
    )
    framed(figure, "The source's residual in the target", said, height=270 + 34 * len(points), legend=False)
    figure.update_layout(margin={"t": 120})
    figure.update_xaxes(title="put into the target", type="category", showgrid=False, tickangle=-45)
    return figure.update_yaxes(title="taken from the source", type="category", showgrid=False, automargin=True)
