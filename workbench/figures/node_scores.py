"""What every head and MLP does at every position, as a map; below it the same on pairs that change nothing relevant."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.style import BOTTOM, DIVERGING, TOP, framed
from workbench.measurement import Measurement

ROW, ROOM = 22, 40  # pixels: a node; above a map, for its title
DIMS = ("node", "position")


def node_scores(scores: Measurement, control: Measurement | None = None) -> go.Figure:
    """A map of heads and MLPs (rows, the last layer above) by positions; blue speaks for the right answer, red against.

    Both maps have the same colours, so that a control which does nothing is pale.

    Args:
        scores: `circuits.node_scores`, of each pair or their mean.
        control: the same on pairs that change nothing relevant.

    Raises:
        ValueError: if a measure is not by node and position.
    """
    shown = [("pairs that change the answer", _mean(scores))]
    if control is not None:
        shown.append(("control: pairs that change nothing relevant", _mean(control)))
    titles = [name for name, _ in shown] if control is not None else None
    each = ROW * len(shown[0][1].values)
    tall = len(shown) * each + ROOM * (len(shown) - 1)
    figure = make_subplots(len(shown), 1, subplot_titles=titles, shared_xaxes=True, vertical_spacing=ROOM / tall)
    figure.update_annotations(x=0, xanchor="left", font={"size": 12})
    for row, (_, mean) in enumerate(shown, 1):
        _add_map(figure, mean, row)
    about, most = scores.settings, max(float(np.nanmax(abs(mean.values))) for _, mean in shown) or 1.0
    subtitle = f"{about.get('model', 'model')}, pairs of kind {about.get('pairs', '?')}; {scores.name}"
    above = TOP + ROOM * (control is not None)
    framed(figure, "Where heads and MLPs carry the answer", subtitle, height=above + tall + BOTTOM, legend=False)
    figure.update_layout(margin={"t": above})
    bar = {"title": {"text": scores.units, "side": "right"}, "thickness": 12, "outlinewidth": 0}
    figure.update_layout(coloraxis={"colorscale": DIVERGING, "cmin": -most, "cmax": most, "colorbar": bar})
    figure.update_xaxes(showgrid=False)
    figure.update_xaxes(title="position", row=len(shown))
    return figure.update_yaxes(showgrid=False, automargin=True, type="category")


def _mean(scores: Measurement) -> Measurement:
    mean = scores.mean() if "example" in scores.dims else scores
    if mean.dims != DIMS:
        raise ValueError(f"the map is of scores by node and position, not by {', '.join(mean.dims)}")
    return mean


def _add_map(figure: go.Figure, mean: Measurement, row: int) -> None:
    low, high = mean.low, mean.high
    between = None if low is None or high is None else np.stack([low, high], -1)
    hover = "%{y} at position %{x}: %{z:.3g} " + mean.units
    hover += "" if between is None else " (95 % interval %{customdata[0]:.3g} to %{customdata[1]:.3g})"
    figure.add_heatmap(
        z=mean.values,
        x=list(mean.coords["position"]),
        y=list(mean.coords["node"]),
        customdata=between,
        coloraxis="coloraxis",
        hovertemplate=hover + "<extra></extra>",
        xgap=1,
        ygap=1,
        row=row,
        col=1,
    )


__all__ = ["node_scores"]
