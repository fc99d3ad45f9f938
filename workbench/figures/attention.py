"""One head's attention on one example: as a matrix and as arcs over the tokens, with the gold edges marked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import GREEN, GREY, ORANGE, PURPLE, SHADES, VERMILLION, framed, thinned
from workbench.instruments.attention.attention_graph import Edge
from workbench.measurement import Measurement

ARC = np.linspace(0, np.pi, 25)


def attention_matrix(matrices: Measurement, which: str = "pattern", gold: Sequence[Edge] = ()) -> go.Figure:
    """Attention as a heat map, queries down, keys across; gold edges outlined, the first hop apart from the rest.

    Args:
        matrices: `attention_graph.matrices(...)`.
        which: `pattern`, `A²`, ..., or `resolvent`.
        gold: `attention_graph.gold_edges(...)`, or those of one hop.

    Raises:
        ValueError: if there is no such matrix.
    """
    part = matrices.select(matrix=which)
    names = list(part.coords["query"])
    figure = go.Figure()
    figure.add_heatmap(
        z=part.values,
        zmin=0,
        colorscale=SHADES,
        colorbar={"title": {"text": "share of the row", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        customdata=[[f"{query} reads {key}" for key in names] for query in names],
        hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
    )
    size = max(4, min(26, 400 // len(names)))
    marks = {
        "gold, 1 hop": ("square-open", ORANGE, [edge for edge in gold if edge[0] == 1]),
        "gold, further hops": ("circle-open", PURPLE, [edge for edge in gold if edge[0] > 1]),
    }
    for label, (symbol, colour, edges) in marks.items():
        if edges:
            figure.add_scatter(
                x=[key for _, _, key in edges],
                y=[query for _, query, _ in edges],
                mode="markers",
                name=label,
                marker={"symbol": symbol, "size": size, "color": colour, "line": {"width": 1.8}},
                hoverinfo="skip",
            )
    framed(figure, f"{part.name}: {which}", subtitle(part), height=760, legend=bool(gold))
    figure.update_layout(width=820)
    last = len(names) - 0.5
    figure.update_xaxes(title="key (position:token)", tickangle=-90, showgrid=False, **thinned(names, 48))
    figure.update_xaxes(range=[-0.5, last], constrain="domain")
    figure.update_yaxes(title="query (position:token)", showgrid=False, automargin=True, **thinned(names, 40))
    return figure.update_yaxes(range=[last, -0.5], scaleanchor="x", constrain="domain")


def attention_arcs(
    matrices: Measurement,
    which: str = "pattern",
    gold: Sequence[Edge] = (),
    *,
    query: int | None = None,
    threshold: float = 0.02,
    strongest: int = 120,
) -> go.Figure:
    """Attention as arcs from keys to queries over the sequence; wider arcs carry more of the row.

    An arc stands for a share of at least `threshold`; without one, a gold edge is missing. Arcs of queries that have
    no gold edge are grey: neither right nor wrong. A position's attention to itself is not drawn. Where there are more
    arcs than `strongest`, only those are drawn, and the subtitle says so.

    Args:
        matrices: `attention_graph.matrices(...)`.
        which: `pattern`, `A²`, ..., or `resolvent`.
        gold: `attention_graph.gold_edges(...)`, or those of one hop.
        query: draw one position's arcs only.
        threshold: the smallest share of a row that counts as an edge.
        strongest: how many arcs to draw at most.

    Raises:
        ValueError: if there is no such matrix.
    """
    part = matrices.select(matrix=which)
    names = list(part.coords["query"])
    weight = part.values if query is None else np.where(np.arange(len(names))[:, None] == query, part.values, 0.0)
    truth = {(q, k) for _, q, k in gold if query in (None, q)}
    strong = sorted(zip(*np.nonzero(weight >= threshold), strict=True), key=lambda edge: -weight[edge])
    edges = [(int(q), int(k)) for q, k in strong if q != k]
    drawn = edges[:strongest]
    missing = sorted(truth - set(edges))
    asked = {q for q, _ in truth}
    kinds: list[tuple[str, str, str, list[tuple[int, int]]]] = [
        ("where no gold edge is due" if gold else "attention", GREY, "solid", [e for e in drawn if e[0] not in asked]),
        ("wrong: no gold edge", VERMILLION, "solid", [e for e in drawn if e[0] in asked and e not in truth]),
        ("right: a gold edge", GREEN, "solid", [e for e in drawn if e in truth]),
        (f"missing: gold, below {threshold:.0%}", PURPLE, "dot", missing[:strongest]),
    ]
    figure = go.Figure()
    for label, colour, dash, members in kinds:
        for trace in arcs(members, weight, names, label, colour, dash):
            figure.add_trace(trace)
    notes = [f"arcs from {threshold:.0%} of a row"]
    if len(edges) > strongest:
        notes.append(f"the {strongest} strongest of {len(edges)} arcs")
    if len(missing) > strongest:
        notes.append(f"{strongest} of {len(missing)} missing edges")
    title = f"{part.name}: {which}" + ("" if query is None else f", read by {names[query]}")
    framed(figure, title, f"{subtitle(part)}; {'; '.join(notes)}", height=460)
    figure.update_xaxes(title="position:token", tickangle=-90, showgrid=False, range=[-0.7, len(names) - 0.3])
    figure.update_xaxes(**thinned(names, 64))
    figure.update_layout(legend={"itemsizing": "constant"})
    return figure.update_yaxes(visible=False, rangemode="tozero")


def arcs(
    edges: Sequence[tuple[int, int]], weight: np.ndarray, names: Sequence[str], label: str, colour: str, dash: str
) -> list[Any]:
    """Traces for one kind of edge: one for each of four widths, and markers at the tops that carry the hover text."""
    traces: list[Any] = []
    largest = weight.max() or 1.0  # a row edited to nothing has only missing edges
    level = [min(3, int(4 * weight[edge] / largest)) for edge in edges]
    for width in range(4):
        members = [edge for edge, at in zip(edges, level, strict=True) if at == width]
        x = [v for q, k in members for v in (*((q + k) / 2 + (q - k) / 2 * np.cos(ARC)), None)]
        y = [v for q, k in members for v in (*(abs(q - k) ** 0.7 * np.sin(ARC)), None)]
        if members:
            line = {"color": colour, "width": 0.9 + 1.3 * width, "dash": dash}
            traces.append(go.Scatter(x=x, y=y, mode="lines", line=line, opacity=0.75, hoverinfo="skip"))
    if edges:
        traces.append(
            go.Scatter(
                x=[(q + k) / 2 for q, k in edges],
                y=[abs(q - k) ** 0.7 for q, k in edges],
                mode="markers",
                marker={"color": colour, "size": 4},
                text=[f"{names[q]} reads {names[k]}: {weight[q, k]:.3f}" for q, k in edges],
                hovertemplate="%{text}<extra></extra>",
            )
        )
        for i, trace in enumerate(traces):
            trace.update(name=f"{label} ({len(edges)})", legendgroup=label, showlegend=i == 0)
    return traces


def subtitle(part: Measurement) -> str:
    scaled = ", rows scaled to sum to 1" if part.settings["matrix"] == "resolvent" else ""
    return f"{part.settings['model']}{scaled}"
