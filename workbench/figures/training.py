"""Measurements over training: one line for each thing measured, checkpoints along the axis, events marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import DASHES, GREY, PALETTE, SHADES, faint, framed, point_name
from workbench.figures.style import in_order as colours_in_order
from workbench.instruments import Measurement

SPREAD = 20.0  # widest gap between checkpoints over the narrowest from which the axis is logarithmic


def over_training(
    lines: Mapping[str, Measurement],
    title: str,
    subtitle: str = "",
    *,
    controls: Mapping[str, Measurement] | None = None,
    in_order: bool = False,
    events: Sequence[tuple[int, str]] = (),
) -> go.Figure:
    """Lines over training steps with their intervals as bands.

    Args:
        lines: label -> a measurement whose only dim is `step`.
        title, subtitle: of the figure.
        controls: the control of some of the lines, under the same labels; dashed.
        in_order: whether the labels are a sequence (layers, hops, lengths), to be coloured as one.
        events: (step, words), marked by a vertical line.
    """
    figure = go.Figure()
    steps = list(next(iter(lines.values())).coords["step"])
    gaps = np.diff(steps)
    log = len(gaps) > 1 and gaps.max() / gaps.min() >= SPREAD
    x = [step + 1 for step in steps] if log else steps
    few = not in_order and len(lines) <= len(PALETTE)
    colours = PALETTE[: len(lines)] if few else colours_in_order(len(lines))
    for colour, (label, line) in zip(colours, lines.items(), strict=True):
        _add(figure, x, line, label, colour, DASHES[0])
        if controls and label in controls:
            _add(figure, x, controls[label], f"{label}, control", colour, DASHES[2])
    for step, words in events:
        figure.add_vline(step + 1 if log else step, line={"color": GREY, "dash": "dot", "width": 1})
        at = np.log10(step + 1) if log else step
        figure.add_annotation(x=at, y=1, yref="paper", text=words, showarrow=False, textangle=-90, xanchor="right")
    framed(figure, title, subtitle).update_layout(legend_traceorder="normal")  # bands would turn it round
    first = next(iter(lines.values()))
    if first.units == "share":
        figure.update_yaxes(range=[-0.03, 1.03], tickformat=".0%", title="share")
    else:
        figure.update_yaxes(rangemode="tozero", title=first.units)
    if not log:
        return figure.update_xaxes(title="training step")
    ticks = [step for step in (0, *(10**k for k in range(7))) if step <= steps[-1]]
    return figure.update_xaxes(
        title="training step (logarithmic)",
        type="log",
        tickvals=[tick + 1 for tick in (*ticks, steps[-1])],
        ticktext=[f"{tick:,}" for tick in (*ticks, steps[-1])],
    )


def map_over_training(lines: Mapping[str, Measurement], title: str, subtitle: str = "") -> go.Figure:
    """Many lines over training steps as the rows of a map."""
    first = next(iter(lines.values()))
    figure = go.Figure()
    figure.add_heatmap(
        z=[line.values for line in lines.values()],
        x=[f"{step:,}" for step in first.coords["step"]],
        y=list(lines),
        colorscale=SHADES,
        colorbar={"title": {"text": first.units, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        hovertemplate="%{y}, step %{x}: %{z:.3g}<extra></extra>",
    )
    framed(figure, title, subtitle, height=190 + min(900, 22 * len(lines)), legend=False)
    figure.update_xaxes(title="training step (checkpoints)", type="category")
    return figure.update_yaxes(type="category", autorange="reversed", automargin=True)


def _add(figure: go.Figure, x: Sequence[int], line: Measurement, label: str, colour: str, dash: str) -> None:
    assert line.dims == ("step",), f"{label}: a line over training has the single dim step, not {line.dims}"
    if line.low is not None and line.high is not None and dash == DASHES[0]:
        around = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
        figure.add_scatter(x=x, y=line.low, **around)
        figure.add_scatter(x=x, y=line.high, fill="tonexty", fillcolor=faint(colour), **around)
    figure.add_scatter(
        x=x,
        y=line.values,
        name=label,
        mode="lines+markers",
        line={"color": colour, "dash": dash, "width": 2.5 if dash == DASHES[0] else 1.5},
        marker={"size": 5},
        customdata=line.coords["step"],
        hovertemplate="step %{customdata:,}: %{y}",
    )


def line_name(label: str) -> str:
    """`layer blocks.0.hook_resid_mid` is `0 · mid`, `unit position` is `per position`; others as they are."""
    dim, _, value = label.partition(" ")
    if dim == "unit":
        return f"per {value}"
    return point_name(value) if dim in ("layer", "point") and value.startswith("blocks.") else label
