"""The plots of a figure as rows and columns: what is in each, and where each stands on the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from workbench.figures.for_paper.text import LARGE, balanced, font, height, longest_word

GAP = 10  # pixels between a plot and what belongs to the next
NARROWEST = 76  # pixels of a plot, below which the columns go on in a further row


@dataclass
class Panel:
    """One plot.

    Attributes:
        x, y: its axes.
        traces: what is drawn on them.
        row, column: where it stands.
        weight: its share of the height, and of the width.
        headings: the annotations above it.
        left, above, below: pixels that ticks, titles and headings take beside it.
        least: pixels of height which what is in it takes.
    """

    x: Any
    y: Any
    traces: list[Any] = field(default_factory=list)
    row: int = 0
    column: int = 0
    weight: tuple[float, float] = (1.0, 1.0)
    headings: list[Any] = field(default_factory=list)
    left: float = 0.0
    above: float = 0.0
    below: float = 0.0
    least: float = 0.0


def panels_of(figure: go.Figure) -> list[Panel]:
    """The plots of a figure with its traces and headings; none for one without axes, such as a pie."""
    found: dict[str, Panel] = {}
    layout = figure.layout
    for trace in figure.data:
        if "xaxis" not in trace:
            continue
        y = layout[_axis("y", trace.yaxis)]
        name = y.overlaying or trace.yaxis or "y"
        key = f"{trace.xaxis or 'x'} {name}"
        if key not in found:
            found[key] = Panel(layout[_axis("x", trace.xaxis)], layout[_axis("y", name)])
        if not y.overlaying:
            found[key].traces.append(trace)
    panels = list(found.values())
    across = sorted({_ends(panel.x) for panel in panels})
    down = sorted({_ends(panel.y) for panel in panels}, reverse=True)
    for panel in panels:
        x, y = _ends(panel.x), _ends(panel.y)
        panel.row, panel.column = down.index(y), across.index(x)
        panel.weight = (y[1] - y[0], x[1] - x[0])
        panel.headings = [one for one in layout.annotations or () if _is_above(one, x, y[1])]
    return panels


def _axis(letter: str, name: str | None) -> str:
    """The layout's name of an axis: `xaxis2` of `x2`."""
    return f"{letter}axis{(name or letter)[1:]}"


def _ends(axis: Any) -> tuple[float, float]:
    start, end = axis.domain or (0.0, 1.0)
    return round(start, 4), round(end, 4)


def _is_above(note: Any, x: tuple[float, float], top: float) -> bool:
    """Whether an annotation is the heading of the plot with these ends: above its middle."""
    if note.xref != "paper" or note.yref != "paper" or note.yanchor != "bottom" or note.showarrow or note.textangle:
        return False
    return x[0] <= (note.x or 0) <= x[1] and abs((note.y or 0) - top) < 0.02


def columns_of(panels: Sequence[Panel]) -> int:
    """How many plots stand beside each other."""
    return 1 + max(panel.column for panel in panels)


def rows_of(panels: Sequence[Panel]) -> int:
    """How many plots stand above each other."""
    return 1 + max(panel.row for panel in panels)


def wrap(panels: Sequence[Panel], room: float) -> bool:
    """Let columns which are too narrow go on in further rows; returns whether any does.

    Plots which begin a row now show the ticks and the title of the axis that they shared.
    """
    columns, rows = columns_of(panels), rows_of(panels)
    most = max(1, min(columns, _columns_in(panels, room)))
    most = -(-columns // -(-columns // most))
    if most == columns:
        return False
    first = {panel.row: panel.y for panel in panels if panel.column == 0}
    for panel in panels:
        shared = first.get(panel.row)
        part, panel.column = divmod(panel.column, most)
        if part and not panel.column and shared is not None:
            panel.y.update(title={"text": panel.y.title.text or shared.title.text}, showticklabels=True)
        panel.row += rows * part
        panel.weight = (panel.weight[0], 1.0)
    return True


def _columns_in(panels: Sequence[Panel], room: float) -> int:
    """How many columns fit into a room, if each plot is as wide as its words and no narrower than the least."""
    columns = columns_of(panels)
    taken = [max(panel.left for panel in panels if panel.column == column) for column in range(columns)]
    words = [note.text for panel in panels for note in panel.headings]
    words += [panel.x.title.text for panel in panels if panel.x.title.text]
    least = max([NARROWEST, *map(longest_word, words)])
    for most in range(columns, 1, -1):
        wrapped = [max(taken[column::most]) for column in range(most)]
        wrapped[0] = max(taken[0], wrapped[0])
        if sum(wrapped) + most * least <= room:
            return most
    return 1


def widths(panels: Sequence[Panel], room: float) -> list[tuple[float, float]]:
    """Start and end of each column's plot in pixels from the left edge, where they may end after `room`."""
    columns = columns_of(panels)
    in_column = [[panel for panel in panels if panel.column == column] for column in range(columns)]
    left = [max(panel.left for panel in column) for column in in_column]
    weights = [max(panel.weight[1] for panel in column) for column in in_column]
    free = room - sum(left)
    ends, at = [], 0.0
    for before, weight in zip(left, weights, strict=True):
        start = at + before
        at = start + free * weight / sum(weights)
        ends.append((start, at))
    return ends


def fold_headings(panels: Sequence[Panel], room: float) -> None:
    """Fold headings to the width of their plot, and count their lines."""
    for panel in panels:
        for note in panel.headings:
            note.text = balanced(note.text, room)
            panel.above = max(panel.above, height(note.text) + 4)


def place(
    figure: go.Figure, panels: Sequence[Panel], across: Sequence[tuple[float, float]], tall: Sequence[float]
) -> tuple[float, float, float]:
    """Set the domains of the axes and the places of headings; returns the pixels above, of, and below all plots.

    Args:
        figure: with the plots.
        panels: the plots.
        across: start and end of each column.
        tall: the height of each row's plots.
    """
    in_row = [[panel for panel in panels if panel.row == row] for row in range(len(tall))]
    above = [max((panel.above for panel in row), default=0.0) for row in in_row]
    below = [max((panel.below for panel in row), default=0.0) for row in in_row]
    gaps = [max(low + high, GAP) + GAP / 2 for low, (_, high) in zip(below, pairwise(above), strict=False)]
    area = sum(tall) + sum(gaps)
    left, right = across[0][0], across[-1][1]
    tops = [sum(tall[:row]) + sum(gaps[:row]) for row in range(len(tall))]
    for panel in panels:
        start, end = ((pixel - left) / (right - left) for pixel in across[panel.column])
        top = 1 - tops[panel.row] / area
        panel.x.domain = [max(0.0, start), min(1.0, end)]
        panel.y.domain = [max(0.0, top - tall[panel.row] / area), top]
        for note in panel.headings:
            note.update(x=(start + end) / 2, xanchor="center", y=top, yshift=1)
    return above[0], area, below[-1]


def write_titles(figure: go.Figure, panels: Sequence[Panel]) -> None:
    """The titles of vertical axes as annotations at the left of what `Panel.left` holds.

    Plotly moves such titles away from what it takes to be in their way, into the plot if margins are fixed.
    """
    for panel in panels:
        text = panel.y.title.text
        if not text:
            continue
        low, high = panel.y.domain
        at = {"x": panel.x.domain[0], "y": (low + high) / 2, "xref": "paper", "yref": "paper"}
        shift = height(text, LARGE) / 2 - panel.left
        look = {"textangle": -90, "showarrow": False, "xanchor": "center", "yanchor": "middle"}
        figure.add_annotation(text=text, xshift=shift, font=font(LARGE), **at, **look)
        panel.y.title.text = None
