"""One head's attention on one example: as a matrix and as arcs over the tokens, with the gold edges marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import GREEN, GREY, ORANGE, PURPLE, SHADES, VERMILLION, cells, framed, literal, thinned
from workbench.instruments.attention.attention_graph import Edge, rows_are_shares
from workbench.measurement import Measurement

ARC = np.linspace(0, np.pi, 25)


@dataclass(frozen=True)
class Arcs:
    """The arcs of one kind of edge.

    Attributes:
        label: what the kind is called in the legend.
        colour, dash: of its lines.
        edges: (query, key), strongest first.
    """

    label: str
    colour: str
    edges: list[tuple[int, int]]
    dash: str = "solid"


def weight_in_words(matrix: np.ndarray) -> str:
    """What an entry `[query, key]` of a matrix is: a share of its row, or a weight where rows do not sum to 1."""
    return "share of the row" if rows_are_shares(matrix) else "weight (rows do not sum to 1)"


def threshold_in_words(matrix: np.ndarray, threshold: float) -> str:
    """The least weight that is drawn: `5% of a row`, or `a weight of 0.05` where rows do not sum to 1."""
    return f"{threshold:.0%} of a row" if rows_are_shares(matrix) else f"a weight of {threshold:g}"


def attention_matrix(matrices: Measurement, which: str = "pattern", gold: Sequence[Edge] = ()) -> go.Figure:
    """Attention as a heat map, queries down, keys across, with the gold edges outlined.

    Gold edges of the first hop are squares, those of further hops circles.

    Args:
        matrices: `attention_graph.matrices(...)`.
        which: `pattern`, `A²`, ..., or `resolvent`.
        gold: `attention_graph.gold_edges(...)`, or those of one hop.

    Raises:
        ValueError: if there is no such matrix.
    """
    part = matrices.select(matrix=which)
    names = literal(part.coords["query"])
    figure = go.Figure()
    figure.add_heatmap(
        z=part.values,
        zmin=0,
        **cells(SHADES, weight_in_words(part.values)),
        customdata=[[f"{query} reads {key}" for key in names] for query in names],
        hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
    )
    outline_gold(figure, gold, range(len(names)), max(4, min(26, 400 // len(names))))
    framed(figure, f"{part.name}: {which}", subtitle(part), height=760, legend=bool(gold))
    figure.update_layout(width=820)
    last = len(names) - 0.5
    figure.update_xaxes(title="key (position:token)", tickangle=-90, showgrid=False, **thinned(names, 48))
    figure.update_xaxes(range=[-0.5, last], constrain="domain")
    figure.update_yaxes(title="query (position:token)", showgrid=False, automargin=True, **thinned(names, 40))
    return figure.update_yaxes(range=[last, -0.5], scaleanchor="x", constrain="domain")


def outline_gold(
    figure: go.Figure, gold: Sequence[Edge], at: Sequence[Any], size: float, width: float = 1.8, **cell: int
) -> None:
    """Squares around the gold edges of the first hop, circles around those of further hops.

    Args:
        figure: with a heat map of queries and keys.
        gold: the edges.
        at: where each position is on both axes.
        size, width: of the marks and of their lines, in pixels.
        cell: `row` and `col`, of a figure of several maps.
    """
    marks = {"gold, 1 hop": ("square-open", ORANGE, 1), "gold, further hops": ("circle-open", PURPLE, 2)}
    shown = {trace.name for trace in figure.data}
    for label, (symbol, colour, hop) in marks.items():
        edges = [edge for edge in gold if min(edge[0], 2) == hop]
        if edges:
            figure.add_scatter(
                x=[at[key] for _, _, key in edges],
                y=[at[query] for _, query, _ in edges],
                mode="markers",
                name=label,
                legendgroup=label,
                showlegend=label not in shown,
                marker={"symbol": symbol, "size": size, "color": colour, "line": {"width": width}},
                hoverinfo="skip",
                **cell,
            )


def attention_arcs(
    matrices: Measurement,
    which: str = "pattern",
    gold: Sequence[Edge] = (),
    *,
    threshold: float = 0.02,
    strongest: int = 120,
) -> go.Figure:
    """Attention as arcs from keys to queries over the sequence; wider arcs carry more of the row.

    Arcs of queries that have no gold edge are grey: neither right nor wrong. A gold edge below the threshold is drawn
    as missing. A position's attention to itself is not drawn.

    Args:
        matrices: `attention_graph.matrices(...)`.
        which: `pattern`, `A²`, ..., or `resolvent`.
        gold: `attention_graph.gold_edges(...)`, or those of one hop.
        threshold: the smallest share of a row that is drawn as an arc.
        strongest: how many arcs to draw at most; where there are more, the subtitle says so.

    Raises:
        ValueError: if there is no such matrix.
    """
    part = matrices.select(matrix=which)
    names = literal(part.coords["query"])
    truth = {(q, k) for _, q, k in gold}
    least = threshold_in_words(part.values, threshold)
    kinds, notes = _kinds_of_arcs(part.values, truth, threshold, strongest, least)
    if not gold:
        kinds[0] = replace(kinds[0], label="attention")
    figure = go.Figure([trace for kind in kinds for trace in arcs(kind, part.values, names)])
    framed(figure, f"{part.name}: {which}", f"{subtitle(part)}; {'; '.join(notes)}", height=460)
    figure.update_xaxes(title="position:token", tickangle=-90, showgrid=False, range=[-0.7, len(names) - 0.3])
    figure.update_xaxes(**thinned(names, 64))
    figure.update_layout(legend={"itemsizing": "constant"})
    return figure.update_yaxes(visible=False, rangemode="tozero")


def _kinds_of_arcs(
    weight: np.ndarray, truth: set[tuple[int, int]], threshold: float, strongest: int, least: str
) -> tuple[list[Arcs], list[str]]:
    """The arcs to draw, sorted by whether a gold edge is due there, and notes on what is left out."""
    asked = {query for query, _ in truth}
    by_weight = sorted(zip(*np.nonzero(weight >= threshold), strict=True), key=lambda edge: -weight[edge])
    edges = [(int(query), int(key)) for query, key in by_weight if query != key]
    drawn, missing = edges[:strongest], sorted(truth - set(edges))
    kinds = [
        Arcs("query without a gold edge", GREY, [e for e in drawn if e[0] not in asked]),
        Arcs("wrong: not a gold edge", VERMILLION, [e for e in drawn if e[0] in asked and e not in truth]),
        Arcs("right: a gold edge", GREEN, [e for e in drawn if e in truth]),
        Arcs(f"missing: gold, below {least}", PURPLE, missing[:strongest], "dot"),
    ]
    notes = [f"arcs from {least}"]
    if len(edges) > strongest:
        notes.append(f"the {strongest} strongest of {len(edges)} arcs")
    if len(missing) > strongest:
        notes.append(f"{strongest} of {len(missing)} missing edges")
    return kinds, notes


def arcs(kind: Arcs, weight: np.ndarray, names: Sequence[str]) -> list[Any]:
    """Traces for one kind of edge: one for each of four widths, and markers at the tops that carry the hover text."""
    traces: list[Any] = []
    edges, largest = kind.edges, weight.max() or 1.0  # a row edited to nothing has only missing edges
    level = [min(3, int(4 * weight[edge] / largest)) for edge in edges]
    for width in range(4):
        members = [edge for edge, at in zip(edges, level, strict=True) if at == width]
        if members:
            line = {"color": kind.colour, "width": 0.9 + 1.3 * width, "dash": kind.dash}
            traces.append(go.Scatter(**along(members), mode="lines", line=line, opacity=0.75, hoverinfo="skip"))
    if edges:
        traces.append(
            go.Scatter(
                **tops(edges),
                mode="markers",
                marker={"color": kind.colour, "size": 4},
                text=[f"{names[q]} reads {names[k]}: {weight[q, k]:.3f}" for q, k in edges],
                hovertemplate="%{text}<extra></extra>",
            )
        )
        for i, trace in enumerate(traces):
            trace.update(name=f"{kind.label} ({len(edges)})", legendgroup=kind.label, showlegend=i == 0)
    return traces


def along(edges: Sequence[tuple[int, int]]) -> dict[str, list[float | None]]:
    """The x and y of arcs from keys to queries, each followed by a gap; they are higher the further apart the two."""
    x = [v for q, k in edges for v in (*((q + k) / 2 + (q - k) / 2 * np.cos(ARC)), None)]
    return {"x": x, "y": [v for q, k in edges for v in (*(abs(q - k) ** 0.7 * np.sin(ARC)), None)]}


def tops(edges: Sequence[tuple[int, int]]) -> dict[str, list[float]]:
    """The x and y of the tops of those arcs."""
    return {"x": [(q + k) / 2 for q, k in edges], "y": [abs(q - k) ** 0.7 for q, k in edges]}


def subtitle(part: Measurement) -> str:
    """The model, and how the rows of its resolvent are scaled."""
    scaled = ", rows scaled to sum to 1" if part.settings["matrix"] == "resolvent" else ""
    return f"{part.settings['model']}{scaled}"
