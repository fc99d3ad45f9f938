"""Where the plots of a figure for print stand, and their words broken into lines, by a guess at how wide words are."""

from __future__ import annotations

import math
import re
from base64 import b64decode
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

SMALL, LARGE = 7 * 96 / 72, 8 * 96 / 72  # pixels of 7 points (ticks, legend, subtitle) and of 8 (titles)
LETTER = 0.6  # the width of a letter, in a font's size
LINE = 1.3 * SMALL  # the height of a line
NARROWEST, LEAST, TALLEST = 84, 85, 0.75  # of a plot: pixels across, pixels down, and its height in the figure's width
MOST = 24  # words at the left of a plot, above which some are left out rather than the plot grown


@dataclass
class Plot:
    """One plot: its axes, headings and traces, its share of the figure's width and height, and where it stands."""

    x: Any
    y: Any
    headings: list[Any]
    share: tuple[float, float]
    column: int
    row: int
    traces: list[Any] = field(default_factory=list)


def plots_of(figure: go.Figure) -> list[Plot]:
    """The plots of a figure; of two vertical axes of one plot, the one at the left is meant."""
    layout = figure.layout
    found: dict[str, Plot] = {}
    for trace in figure.data:
        if "xaxis" not in trace:
            continue
        y = layout[f"yaxis{(trace.yaxis or 'y')[1:]}"]
        y = layout[f"yaxis{y.overlaying[1:]}"] if y.overlaying else y
        x = layout[f"xaxis{(trace.xaxis or 'x')[1:]}"]
        wide, tall = _ends(x), _ends(y)
        headings = [
            note
            for note in layout.annotations
            if (note.xref, note.yref, note.yanchor, bool(note.textangle)) == ("paper", "paper", "bottom", False)
            and wide[0] <= note.x <= wide[1]
            and abs(note.y - tall[1]) < 0.02
        ]
        share = (wide[1] - wide[0], tall[1] - tall[0])
        plot = Plot(x, y, headings, share, 0, 0)
        found.setdefault(f"{x.plotly_name} {y.plotly_name}", plot).traces.append(trace)
    across = sorted({_ends(plot.x) for plot in found.values()})
    down = sorted({_ends(plot.y) for plot in found.values()}, reverse=True)
    for plot in found.values():  # an axis without a trace takes no place
        plot.column, plot.row = across.index(_ends(plot.x)), down.index(_ends(plot.y))
    return list(found.values())


def _ends(axis: Any) -> tuple[float, float]:
    start, end = axis.domain or (0.0, 1.0)
    return start, end


def lay_out(figure: go.Figure, plots: list[Plot], size: tuple[float, float], room: float | None) -> tuple[float, float]:
    """Place plots, and break their words into lines.

    Args:
        figure: with the plots.
        plots: all of them.
        size: the figure's width, and the height of a row of plots.
        room: the height that they should take with their words; None: what they take.

    Returns:
        The height of what is above the first row, and that of all of it.
    """
    free = size[0] - right_of(figure)
    left = _in_rows(plots, free, size[1])
    across = _shared(free - sum(left), [(plot.column, plot.share[0]) for plot in plots])
    above: dict[int, float] = {}
    below: dict[int, float] = {}
    for plot in plots:
        for note in plot.headings:
            note.text = fold(note.text, across[plot.column])
        above[plot.row] = max(above.get(plot.row, 0.0), *(height_of(note.text) + 4 for note in plot.headings), 0.0)
        below[plot.row] = max(below.get(plot.row, 0.0), _below(plot, across[plot.column]))
    rows, beside = len(above), sum(above.values()) + sum(below.values())
    down = _shared(size[1] * rows if room is None else room - beside, [(plot.row, plot.share[1]) for plot in plots])
    for plot in plots:
        least = max(LEAST, _inside(figure, plot, across[plot.column], down[plot.row]))
        down[plot.row] = max(down[plot.row], least)
    if len(plots) > 1:
        wide, tall = sum(across) + sum(left[1:]), sum(down) + beside - above[0] - below[rows - 1]
        for plot in plots:
            start = (sum(across[: plot.column]) + sum(left[1 : plot.column + 1])) / wide
            passed = range(plot.row)
            top = 1 - sum(down[row] + below[row] + above[row + 1] for row in passed) / tall
            plot.x.domain = [start, min(1.0, start + across[plot.column] / wide)]
            plot.y.domain = [max(0.0, top - down[plot.row] / tall), top]
            for note in plot.headings:
                note.update(x=sum(plot.x.domain) / 2, xanchor="center", y=top, yshift=1)
    return above[0], sum(down) + beside


def right_of(figure: go.Figure) -> float:
    """About how wide what is at the right of all plots is: a colour bar, or a second axis."""
    scales = [trace for trace in figure.data if trace.type == "heatmap" and trace.showscale is not False]
    return 62.0 if scales else 40.0 if any(axis.overlaying for axis in figure.select_yaxes()) else 14.0


def _shared(whole: float, shares: list[tuple[int, float]]) -> list[float]:
    """A length divided among columns or rows, each by the largest share of what is in it."""
    largest = [max(share for at, share in shares if at == place) for place in range(1 + max(shares)[0])]
    return [whole * share / sum(largest) for share in largest]


def _in_rows(plots: list[Plot], free: float, tall: float) -> list[float]:
    """Let columns for which there is no room go on in further rows; returns the pixels at the left of each column."""
    rows, columns = 1 + max(plot.row for plot in plots), 1 + max(plot.column for plot in plots)
    left = [max(left_of(plot, tall, free) for plot in plots if plot.column == column) for column in range(columns)]
    most = next(n for n in range(columns, 0, -1) if n == 1 or sum(left[:n]) + n * NARROWEST <= free)
    most = math.ceil(columns / math.ceil(columns / most))
    if most == columns:
        return left
    first = {plot.row: plot.y for plot in plots if plot.column == 0}
    for plot in plots:
        shared = first.get(plot.row, plot.y)
        part, plot.column = divmod(plot.column, most)
        if not plot.column:
            plot.y.update(title_text=plot.y.title.text or shared.title.text, showticklabels=True)
        plot.row, plot.share = plot.row + rows * part, (1.0, plot.share[1])
    return [max(left_of(plot, tall, free) for plot in plots if plot.column == column) for column in range(most)]


def left_of(plot: Plot, tall: float, page: float) -> float:
    """Break the words at the left of a plot into lines; returns the pixels that they take."""
    axis, taken = plot.y, 12.0
    if axis.showticklabels is not False and axis.visible is not False:
        labels = _labels(axis, plot.traces, "y")
        if len(labels) > MOST or axis.scaleanchor:
            labels = labels[:: math.ceil(len(labels) * LINE / tall)]
        _set(axis, [(at, fold(text, 0.3 * page)) for at, text in labels])
        taken += max((width_of(text) for text in axis.ticktext or ()), default=5 * LETTER * SMALL)
    if axis.title.text:
        axis.title.text = fold(axis.title.text.replace("<br>", " "), tall, LARGE)
        taken += 8 + height_of(axis.title.text)
    return taken


def _below(plot: Plot, across: float) -> float:
    """Break the words below a plot into lines, or leave some out; returns the pixels that they take."""
    axis, taken = plot.x, 8.0
    if axis.showticklabels is not False and axis.visible is not False:
        axis.tickangle = None
        labels = _labels(axis, plot.traces, "x")
        if labels and axis.ticktext is None and axis.range is None:
            axis.range = [-0.5, len(labels) - 0.5]  # the outermost words have as much room as the others
        slot = across / max(1, len(labels))
        longest = max((width_of(word) for _, text in labels for word in text.split()), default=0.0)
        numbers = all(re.fullmatch(r"[\d.,%−-]+", text) for _, text in labels)
        if numbers or longest + 6 <= slot:
            labels = labels[:: math.ceil((longest + 6) / slot)]
            _set(axis, [(at, fold(text, slot - 6)) for at, text in labels])
            taken += max((height_of(text) for text in axis.ticktext or ()), default=LINE)
        else:
            labels = labels[:: math.ceil(LINE / slot)]
            lines = max(1, int(across / len(labels) / LINE))
            _set(axis, [(at, fold(text, max(90.0, width_of(text) / lines))) for at, text in labels])
            taken += max(width_of(text) for text in axis.ticktext)
    if axis.title.text:
        axis.title.text = fold(axis.title.text, across, LARGE)
        taken += 8 + height_of(axis.title.text)
    return taken


def _labels(axis: Any, traces: list[Any], letter: str) -> list[tuple[Any, str]]:
    """The words at an axis, each with its place; none where Plotly writes numbers."""
    if axis.ticktext is not None:
        return [
            (at, str(text).replace("<br>", " "))
            for at, text in zip(_values(axis.tickvals), axis.ticktext, strict=False)
        ]
    data = [value for trace in traces for value in _values(trace[letter])]
    named = axis.type == "category" or any(isinstance(value, str) for value in data)
    return [(value, str(value).replace("<br>", " ")) for value in dict.fromkeys(data)] if named else []


def _set(axis: Any, labels: list[tuple[Any, str]]) -> None:
    if labels:
        axis.update(tickmode="array", tickvals=[at for at, _ in labels], ticktext=[text for _, text in labels])


def _inside(figure: go.Figure, plot: Plot, across: float, tall: float) -> float:
    """Leave text out of a plot for which there is no room; returns the height that what is in it takes."""
    texts = plot.y.ticktext or ()
    least = len(texts) * max((height_of(text) + 2 for text in texts), default=0.0)
    for trace in plot.traces:
        if trace.type == "heatmap":
            rows = _values(trace.z)
            cell = across / max(1, len(rows[0]))
            least = max(least, cell * len(rows) * bool(plot.y.scaleanchor))
            words = [str(text) for row in _values(trace.text) for text in row] if trace.texttemplate else []
            needed = len(rows) * max(map(height_of, words), default=0.0)
            if max(map(width_of, words), default=0.0) > cell or needed > 1.4 * figure.layout.width:
                trace.update(texttemplate="", text=None)
            else:
                least = max(least, needed)
        elif trace.type == "scatter" and trace.mode == "text" and trace.textposition == "middle right":
            trace.text = [fold(str(text), across / 3) for text in _values(trace.text)]
            longest = max(map(width_of, trace.text)) + 6
            low, _ = plot.x.range or (0.0, 0.0)
            plot.x.range = [low, low + (max(_values(trace.x)) - low) * across / (across - longest)]
            least = max(least, len(trace.text) * (max(map(height_of, trace.text)) + 6))
    return least


def _values(data: Any) -> list[Any]:
    """What a trace's array holds, also where it was read from a file as bytes."""
    if isinstance(data, dict):
        data = np.frombuffer(b64decode(data["bdata"]), dtype=data["dtype"]).reshape(
            [int(size) for size in str(data.get("shape", -1)).split(",")]
        )
    return [] if data is None else list(data)


def fold(text: str, room: float, size: float = SMALL) -> str:
    """A text with line breaks at spaces, so that no line is wider than some pixels, unless a word is."""
    letters = max(1, int(room / (LETTER * size)))
    lines = [wrap(line, letters, break_long_words=False, break_on_hyphens=False) for line in text.split("<br>")]
    return "<br>".join(part for line in lines for part in line or [""])


def width_of(text: str) -> float:
    """About how wide the longest line of a text is, in pixels."""
    return LETTER * SMALL * max(len(re.sub(r"<[^>]*>", "", line)) for line in text.split("<br>"))


def height_of(text: str) -> float:
    """How tall a text is, in pixels."""
    return LINE * (1 + text.count("<br>"))
