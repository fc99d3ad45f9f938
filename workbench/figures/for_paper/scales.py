"""Colour bars for print: thin, at the right of the plots, their titles folded."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.for_paper.text import SMALL, fold, font, height, values, width
from workbench.figures.for_paper.ticks import in_words, steps

THICK, APART = 8, 6  # pixels of a colour bar, and between it and the plots


def lay_out_scales(figure: go.Figure, tall: float) -> float:
    """Place every colour bar beside plots of some height; returns the pixels that they take at the right."""
    taken = [0.0]
    for holder, low, high in _shown(figure):
        bar = holder.colorbar
        title = fold(bar.title.text or "", tall)
        place = {"x": 1, "xanchor": "left", "xpad": APART, "ypad": 0, "thickness": THICK, "outlinewidth": 0}
        bar.update(place | {"tickfont": font(SMALL), "title": {"text": title or None, "font": font(SMALL)}})
        bar.nticks = max(2, min(7, int(tall / 22)))
        labels = [str(text) for text in values(bar.ticktext)] or in_words(
            bar, values(bar.tickvals) or steps(low, high, 5)
        )
        wide = APART + THICK + 4 + max(map(width, labels), default=0.0)
        if title:
            bar.title.side = "right"
            wide += 4 + height(title)
        taken.append(wide)
    return max(taken)


def _shown(figure: go.Figure) -> list[tuple[Any, float, float]]:
    """Everything with a colour bar, and the least and the largest number on it."""
    found = []
    traces = [trace for trace in figure.data if "colorbar" in trace and trace.coloraxis is None]
    traces = [trace for trace in traces if trace.type == "heatmap" and trace.showscale is not False]
    for trace in traces:
        found.append((trace, *_ends(trace.zmin, trace.zmax, [trace])))
    for name in figure.layout:
        axis = figure.layout[name] if name.startswith("coloraxis") else None
        own = [trace for trace in figure.data if axis is not None and getattr(trace, "coloraxis", None) == name]
        if axis is not None and axis.showscale is not False and own:
            found.append((axis, *_ends(axis.cmin, axis.cmax, own)))
    return found


def _ends(low: float | None, high: float | None, traces: list[Any]) -> tuple[float, float]:
    """The ends of a scale, of the data where they are not given."""
    rows = [row for trace in traces for row in values(trace.z)]
    data = np.array([value for row in rows for value in row if value is not None], dtype=float)
    data = data[np.isfinite(data)]
    ends = (float(data.min()), float(data.max())) if data.size else (0.0, 1.0)
    return ends[0] if low is None else float(low), ends[1] if high is None else float(high)
