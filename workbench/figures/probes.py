"""Probes beside their controls: one place of the residual as bars, all of them as lines."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from workbench.figures.curves import interval, sample_size
from workbench.figures.style import BLUE, DASHES, GREEN, GREY, ORANGE, PURPLE, SYMBOLS, framed, point_name
from workbench.instruments import Measurement

COLOURS = (BLUE, ORANGE, PURPLE, GREY, GREEN)
HATCHES = ("", "/", ".", "x", "-")


def probe_card(found: Measurement) -> go.Figure:
    """What a probe decodes at one place, and below it each control: bars with their intervals.

    Args:
        found: accuracy over the single dim `condition`, whose first label is the probe itself.
    """
    names = [str(name) for name in found.coords["condition"]]
    shapes = [HATCHES[min(i, len(HATCHES) - 1)] for i in range(len(names))]
    colours = [COLOURS[min(i, len(COLOURS) - 1)] for i in range(len(names))]
    bars = interval(found)
    figure = go.Figure()
    figure.add_bar(
        x=found.values,
        y=names,
        orientation="h",
        error_x=None if bars is None else {**bars, "color": GREY},
        marker={"color": colours, "opacity": [1.0] + [0.6] * (len(names) - 1), "pattern": {"shape": shapes}},
        hovertemplate="%{y}: %{x:.1%}<extra></extra>",
    )
    ends = found.values if found.high is None else np.fmax(found.values, found.high)
    figure.add_scatter(  # clear of the bars' intervals
        x=ends + 0.01,
        y=names,
        mode="text",
        text=[f"{value:.1%}" for value in found.values],
        textposition="middle right",
        hoverinfo="skip",
    )
    framed(figure, found.name, about(found), height=190 + 44 * len(names), legend=False)
    figure.update_xaxes(title="share of labels decoded on held-out sequences", range=[0, 1.1], tickformat=".0%")
    return figure.update_yaxes(autorange="reversed", automargin=True, showgrid=False)


def probe_by_layer(found: Measurement) -> go.Figure:
    """What a probe decodes from the embedding up through the layers, its controls dashed.

    Args:
        found: accuracy over the dims `point`, `condition`, whose first label is the probe itself.
    """
    figure = go.Figure()
    x = [point_name(point) for point in found.coords["point"]]
    for i, name in enumerate(found.coords["condition"]):
        line = found.select(condition=name)
        figure.add_scatter(
            x=x,
            y=line.values,
            error_y=interval(line),
            name=str(name),
            mode="lines+markers",
            line={"color": COLOURS[min(i, len(COLOURS) - 1)], "width": 1.5 if i else 2.5}
            | {"dash": DASHES[min(i, len(DASHES) - 1)]},
            marker={"symbol": SYMBOLS[min(i, len(SYMBOLS) - 1)], "size": 6 if i else 9},
        )
    framed(figure, f"{found.name}, by layer", about(found), height=460)
    figure.update_yaxes(title="share decoded", range=[-0.03, 1.05], tickformat=".0%")
    figure.update_xaxes(type="category", categoryorder="array", categoryarray=x)
    return figure.update_xaxes(title="residual: layer · point (mid: after attention, post: after the MLP)")


def about(found: Measurement) -> str:
    """The subtitle: whose residual, which positions, and how many sequences."""
    settings = found.settings
    where = "every labelled position" if settings["position"] is None else f"position {settings['position']}"
    at = f", {point_name(settings['point'])}" if "point" not in found.dims else ""
    return f"{settings['model']}{at}, {where}; {sample_size({'': found})}; bars are 95 % intervals"
