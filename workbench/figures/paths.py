"""Attention as a graph, on one example: matrices side by side, and the strongest paths from a query to a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.attention import ARC
from workbench.figures.style import GREY, ORANGE, PALETTE, PURPLE, framed, thinned
from workbench.instruments import Measurement
from workbench.instruments.attention_graph import Edge
from workbench.instruments.strongest_paths import Path

# Steep near zero, so that rows spread over many keys are seen beside sharp ones.
STEEP = [
    [0.0, "rgba(86,180,233,0.03)"],
    [0.1, "rgba(86,180,233,0.45)"],
    [0.4, "rgba(30,146,205,0.8)"],
    [1.0, "rgba(0,114,178,1)"],
]


def side_by_side(parts: Mapping[str, Measurement], gold: Sequence[Edge] = ()) -> go.Figure:
    """Matrices over the same tokens as heat maps next to one another, with the gold edges outlined in each.

    Args:
        parts: title -> a measurement with the dims `query` and `key`, for example of
            `attention_graph.matrices(...)` or `rollout.matrices(...)` with one matrix selected.
        gold: `attention_graph.gold_edges(...)`, or those of one hop.

    Raises:
        ValueError: if there is nothing to draw.
    """
    if not parts:
        raise ValueError("there is no matrix to draw")
    figure = make_subplots(rows=1, cols=len(parts), subplot_titles=list(parts), horizontal_spacing=0.09)
    names = list(next(iter(parts.values())).coords["query"])
    marks = {"gold, 1 hop": ("square-open", ORANGE, 1), "gold, further hops": ("circle-open", PURPLE, 2)}
    size = max(4, min(20, 290 // len(names)))
    for column, (title, part) in enumerate(parts.items(), start=1):
        figure.add_heatmap(
            z=part.values,
            coloraxis="coloraxis",
            customdata=[[f"{query} reads {key}" for key in names] for query in names],
            hovertemplate=f"{title}, %{{customdata}}: %{{z:.3f}}<extra></extra>",
            row=1,
            col=column,
        )
        for label, (symbol, colour, hop) in marks.items():
            edges = [edge for edge in gold if min(edge[0], 2) == hop]
            if edges:
                figure.add_scatter(
                    x=[key for _, _, key in edges],
                    y=[query for _, query, _ in edges],
                    mode="markers",
                    name=label,
                    legendgroup=label,
                    showlegend=column == 1,
                    marker={"symbol": symbol, "size": size, "color": colour, "line": {"width": 1.6}},
                    hoverinfo="skip",
                    row=1,
                    col=column,
                )
    models = dict.fromkeys(str(part.settings["model"]) for part in parts.values())
    subtitle = f"{' and '.join(models)}: share of each row, rows scaled to sum to 1; one example"
    framed(figure, "Attention on one example", subtitle, height=620, legend=bool(gold))
    figure.update_annotations(font={"size": 13})
    last = len(names) - 0.5
    bar = {"title": {"text": "share of the row", "side": "right"}, "thickness": 12, "outlinewidth": 0}
    figure.update_layout(width=120 + 480 * len(parts), margin={"t": 110}, coloraxis={"colorscale": STEEP, "cmin": 0})
    figure.update_layout(coloraxis_colorbar=bar)
    figure.update_xaxes(title="key (position:token)", tickangle=-90, showgrid=False, **thinned(names, 32))
    figure.update_xaxes(range=[-0.5, last], constrain="domain")
    figure.update_yaxes(showgrid=False, automargin=True, range=[last, -0.5], **thinned(names, 32))
    return figure.update_yaxes(title="query (position:token)", col=1)


def path_arcs(paths: Sequence[Path], names: Sequence[str], title: str, subtitle: str = "") -> go.Figure:
    """Paths within one layer as chains of arcs over the tokens, the strongest on top and widest.

    Args:
        paths: `strongest_paths.within_layer(...)`, strongest first.
        names: of the positions, for example `position:word`.
        title: whose attention it is.
        subtitle: the query, the key and the settings, in words.

    Raises:
        ValueError: if there is no path.
    """
    _check(paths)
    figure = go.Figure()
    for rank, path in reversed(list(enumerate(paths))):
        hops = list(pairwise(path.positions))
        x = [v for q, k in hops for v in (*((q + k) / 2 + (q - k) / 2 * np.cos(ARC)), None)]
        y = [v for q, k in hops for v in (*((q - k) ** 0.7 * np.sin(ARC)), None)]
        figure.add_scatter(x=x, y=y, mode="lines", line=_line(rank), hoverinfo="skip", **_legend(rank, path))
        figure.add_scatter(
            x=[(q + k) / 2 for q, k in hops],
            y=[(q - k) ** 0.7 for q, k in hops],
            mode="markers",
            marker={"size": 6, "color": _line(rank)["color"]},
            text=[f"{names[q]} reads {names[k]}: {w:.3f}" for (q, k), w in zip(hops, path.weights, strict=True)],
            hovertemplate="%{text}<extra></extra>",
            legendgroup=str(rank),
            showlegend=False,
        )
    _frame(figure, names, title, subtitle, len(paths))
    return figure.update_yaxes(visible=False, rangemode="tozero")


def path_layers(paths: Sequence[Path], names: Sequence[str], title: str, subtitle: str = "") -> go.Figure:
    """Paths through the layers, from the query's output at the top to the key's input at the bottom.

    Straight down without a head is the residual stream; the legend names the heads of the other edges.

    Args:
        paths: `strongest_paths.across_layers(...)`, strongest first.
        names, title, subtitle: as for `path_arcs`.

    Raises:
        ValueError: if there is no path.
    """
    _check(paths)
    figure, n_layers = go.Figure(), len(paths[0].layers)
    for level in range(n_layers + 1):
        figure.add_scatter(
            x=list(range(len(names))),
            y=[level] * len(names),
            mode="markers",
            marker={"size": 5, "color": GREY, "opacity": 0.5},
            hoverinfo="skip",
            showlegend=False,
        )
    for rank, path in reversed(list(enumerate(paths))):
        aside = 0.2 * (rank - (len(paths) - 1) / 2)  # so that paths over the same edge are seen apart
        levels = list(range(n_layers, -1, -1))
        figure.add_scatter(
            x=[position + aside for position in path.positions],
            y=levels,
            mode="lines+markers",
            line=_line(rank),
            marker={"size": 7},
            text=[names[position] for position in path.positions],
            hovertemplate="%{text}<extra></extra>",
            **_legend(rank, path),
        )
    _frame(figure, names, title, subtitle, len(paths))
    ticks = ["input", *(f"after layer {layer}" for layer in range(n_layers))]
    return figure.update_yaxes(tickvals=list(range(n_layers + 1)), ticktext=ticks, showgrid=False, automargin=True)


def _check(paths: Sequence[Path]) -> None:
    if not paths:
        raise ValueError("there is no path to draw: none of positive weight leads from this query to this key")


def _line(rank: int) -> dict[str, Any]:
    return {"color": PALETTE[rank % len(PALETTE)], "width": max(1.5, 4.5 - rank)}


def _legend(rank: int, path: Path) -> dict[str, Any]:
    """A path's name in the legend: its rank, its weight and its edges; across layers those through heads."""
    way = " → ".join(map(str, path.positions))
    if len(set(path.layers)) > 1:
        edges = zip(pairwise(path.positions), path.layers, path.heads, strict=True)
        through = [f"layer {at} head {head} {q} → {k}" for (q, k), at, head in edges if head is not None]
        way = ", ".join(through) or "the residual stream alone"
    return {"name": f"{rank + 1}: {way}, weight {path.weight:.3g}", "legendgroup": str(rank), "legendrank": rank}


def _frame(figure: go.Figure, names: Sequence[str], title: str, subtitle: str, n_paths: int) -> None:
    framed(figure, title, subtitle, height=400 + 24 * n_paths)
    figure.update_layout(margin={"b": 110 + 22 * n_paths}, legend={"orientation": "v"})
    figure.update_xaxes(title="position:token", tickangle=-90, showgrid=False, range=[-0.7, len(names) - 0.3])
    figure.update_xaxes(**thinned(names, 64))
