"""A legend for print: below the plots, in as many columns as take the least height, its long names folded."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from workbench.figures.for_paper.text import SMALL, balanced, font, height, width

KEY = 48  # pixels of an entry beside its words
PAD = 10  # pixels around the entries of a column
MOST = 4  # columns


def lay_out_legend(figure: go.Figure, pixels: int) -> float:
    """Fold the names of a legend and place it at the bottom; returns the pixels of its height.

    Plotly cuts a legend that lies in rows at the plot's width; one that stands in a column has no limit. So each
    column is a legend of its own.
    """
    shown = [trace for trace in figure.data if trace.showlegend is not False and trace.name]
    wanted = figure.layout.showlegend
    if not shown or wanted is False or (wanted is None and len(shown) < 2):
        return 0.0
    names = [trace.name for trace in shown]
    folded = {columns: _folded(names, columns, pixels) for columns in range(1, MOST + 1)}
    possible = [columns for columns, own in folded.items() if columns == 1 or _wide(own) <= pixels]
    best = folded[min(possible, key=lambda columns: _tall(folded[columns]))]
    place: dict[str, Any] = {
        "orientation": "v",
        "xref": "container",
        "xanchor": "left",
        "yref": "container",
        "yanchor": "top",
    }
    place |= {"maxheight": 1, "itemwidth": 30, "tracegroupgap": 0, "font": font(SMALL), "traceorder": "normal"}
    place |= {"itemsizing": figure.layout.legend.itemsizing}
    x, traces = 0.0, iter(shown)
    for column, own in enumerate(best):
        name = f"legend{column + 1 if column else ''}"
        for text in own:
            next(traces).update(name=text, legend=name, legendgroup=None, legendrank=1000)
        figure.layout[name] = place | {"x": x / pixels}
        x += KEY + max(map(width, own))
    return _tall(best)


def _folded(names: list[str], columns: int, pixels: int) -> list[list[str]]:
    """Names in columns, as they are if there is room for that, else folded to columns of one width."""
    per_column = -(-len(names) // columns)
    split = [names[start : start + per_column] for start in range(0, len(names), per_column)]
    if _wide(split) <= pixels:
        return split
    return [[balanced(name, pixels / len(split) - KEY) for name in own] for own in split]


def _wide(columns: list[list[str]]) -> float:
    """The width of a legend of such columns."""
    return sum(KEY + max(map(width, own)) for own in columns)


def _tall(columns: list[list[str]]) -> float:
    """The height of the longest column."""
    return PAD + max(sum(max(16.0, height(name)) + 3 for name in own) for own in columns)


def place_legend(figure: go.Figure, taken: float, total: float) -> None:
    """Move a legend of some pixels to the bottom of a figure's total height."""
    for name in figure.layout:
        if name.startswith("legend") and taken:
            figure.layout[name].y = taken / total
