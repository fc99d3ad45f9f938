"""Attention as a graph, on one example: matrices side by side, and the strongest paths from a query to a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.attention import along, outline_gold, tops
from workbench.figures.style import GREY, PALETTE, cells, framed, literal, thinned
from workbench.figures.token_page import part_drawn, window
from workbench.instruments.attention.attention_graph import Edge, hop_of
from workbench.instruments.attention.strongest_paths import Path
from workbench.measurement import Measurement

MOST_NAMED = 10  # steps of a path in the legend

# Steep near zero, so that rows spread over many keys are seen beside sharp ones.
STEEP = [
    [0.0, "rgba(86,180,233,0.03)"],
    [0.1, "rgba(86,180,233,0.45)"],
    [0.4, "rgba(30,146,205,0.8)"],
    [1.0, "rgba(0,114,178,1)"],
]


def side_by_side(
    parts: Mapping[str, Measurement],
    gold: Sequence[Edge] | Mapping[str, Sequence[Edge]] = (),
    *,
    title: str = "Attention on one example",
    columns: int | None = None,
    start: int = 0,
) -> go.Figure:
    """Matrices over the same tokens as heat maps next to one another, with the gold edges outlined in each.

    At most `WIDEST` positions are drawn, from `start`; the subtitle says which.

    Args:
        parts: title -> a measurement with the dims `query` and `key`, for example of
            `attention_graph.matrices(...)` or `rollout.matrices(...)` with one matrix selected.
        gold: `attention_graph.gold_edges(...)`, or those of one hop; or title -> those of that matrix.
        title: of the figure.
        columns: how many to a row; by default all.
        start: the first position drawn.

    Raises:
        ValueError: if there is nothing to draw, or no such position.
    """
    if not parts:
        raise ValueError("there is no matrix to draw")
    names = literal(next(iter(parts.values())).coords["query"])
    places = window(len(names), start)
    columns = min(columns or len(parts), len(parts))
    rows = -(-len(parts) // columns)
    figure = _grid(list(parts), names[places.start : places.stop], rows, columns)
    for number, (name, part) in enumerate(parts.items()):
        due = gold.get(name, ()) if isinstance(gold, Mapping) else gold
        cell = {"row": number // columns + 1, "col": number % columns + 1}
        _add_matrix(figure, name, part, due, places, size=680 / columns / len(places), cell=cell)
    models = dict.fromkeys(str(part.settings["model"]) for part in parts.values())
    subtitle = f"{' and '.join(models)}: share of each row, rows scaled to sum to 1; one example"
    subtitle += part_drawn(places, len(names))
    framed(figure, title, subtitle, height=230 + rows * (390 if rows == 1 else 330))
    look = {"margin": {"t": 110, "b": 120, "pad": 0}, "showlegend": bool(gold)}
    return figure.update_layout(width=120 + 480 * columns, **look)


def _add_matrix(
    figure: go.Figure,
    name: str,
    part: Measurement,
    gold: Sequence[Edge],
    places: range,
    *,
    size: float,
    cell: Mapping[str, int],
) -> None:
    """One matrix in its cell of the grid, its gold edges outlined.

    Args:
        name, part: the matrix and what it is called.
        gold: its gold edges.
        places: the positions drawn.
        size: of the outlines in pixels, before limits.
        cell: `row` and `col` of the grid.
    """
    names, drawn = literal(part.coords["query"]), slice(places.start, places.stop)
    figure.add_heatmap(
        z=part.values[drawn, drawn],
        x=names[drawn],
        y=names[drawn],
        coloraxis="coloraxis",
        hovertemplate=f"{name}, %{{y}} reads %{{x}}: %{{z:.3f}}<extra></extra>",
        **cell,
    )
    inside = [(hop, q, k) for hop, q, k in gold if q in places and k in places]
    size = max(3.0, min(20.0, size))
    outline_gold(figure, inside, names, size, 1.6 if size > 5 else 1, **cell)


def _grid(titles: Sequence[str], words: Sequence[str], rows: int, columns: int) -> go.Figure:
    """Places for matrices over the same tokens, queries down and keys across, with one scale of colours for all.

    Zooming into one zooms into all, and only outer axes have labels.
    """
    gaps = {"horizontal_spacing": 0.03, "vertical_spacing": 0.12 / rows}
    figure = make_subplots(rows=rows, cols=columns, subplot_titles=titles, **gaps)
    figure.update_xaxes(matches="x").update_yaxes(matches="y")
    for number in range(rows * columns):
        where = {"row": number // columns + 1, "col": number % columns + 1}
        if number + columns < len(titles):  # another one is below it
            figure.update_xaxes(showticklabels=False, **where)
        if number % columns:
            figure.update_yaxes(showticklabels=False, **where)
        if number >= len(titles):
            figure.update_xaxes(visible=False, **where).update_yaxes(visible=False, **where)
    figure.update_annotations(font={"size": 13})
    figure.update_layout(coloraxis={"cmin": 0, **cells(STEEP, "share of the row")})
    last, ticks = len(words) - 0.5, thinned(words, 64 // (columns + 1))
    axis = {"type": "category", "showgrid": False, "autorange": False, **ticks}
    figure.update_xaxes(tickangle=-90, range=[-0.5, last], constrain="domain", **axis)
    figure.update_yaxes(automargin=True, range=[last, -0.5], **axis)
    figure.update_xaxes(title="key (position:token)", row=rows)
    return figure.update_yaxes(title="query (position:token)", col=1)


def hop_matrices(
    matrices: Measurement, beside: Measurement | None = None, gold: Sequence[Edge] = (), *, start: int = 0
) -> go.Figure:
    """One head's pattern, its powers and all that its layer applies, beside a deep model's rollout of the same tokens.

    In a power of the pattern the gold edges of as many hops are outlined, in the others all.

    Args:
        matrices: `attention_graph.matrices(...)`.
        beside: `rollout.matrices(...)` of another model on the same tokens.
        gold: `attention_graph.gold_edges(...)`.
        start: the first of at most `WIDEST` positions drawn.

    Raises:
        ValueError: if there is no such position.
    """
    parts, due = {}, {}
    for which in matrices.coords["matrix"]:
        hop = hop_of(which)
        title = {1: "A: the pattern", None: "resolvent: all hops at once"}.get(hop, f"{which}: {hop} steps")
        parts[title] = matrices.select(matrix=which)
        due[title] = [edge for edge in gold if hop in (None, edge[0])]
    if beside is not None:
        title = f"rollout of {beside.settings['model']}"
        parts[title], due[title] = beside.select(matrix="rollout"), list(gold)
    columns = {4: 2}.get(len(parts), min(3, len(parts)))
    beside_it = f", beside the rollout of {beside.settings['model']}" if beside is not None else ""
    heading = f"{matrices.name}: hop by hop{beside_it}"
    return side_by_side(parts, due if gold else (), title=heading, columns=columns, start=start)


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
    figure, names = _figure(paths, names, title, subtitle)
    for rank, path in reversed(list(enumerate(paths))):
        hops = list(pairwise(path.positions))
        figure.add_scatter(**along(hops), mode="lines", hoverinfo="skip", **_look(rank, path))
        figure.add_scatter(
            **tops(hops),
            mode="markers",
            marker={"size": 6, "color": PALETTE[rank % len(PALETTE)]},
            text=[f"{names[q]} reads {names[k]}: {w:.3f}" for (q, k), w in zip(hops, path.weights, strict=True)],
            hovertemplate="%{text}<extra></extra>",
            legendgroup=str(rank),
            showlegend=False,
        )
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
    figure, names = _figure(paths, names, title, subtitle)
    n_layers = len(paths[0].layers)
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
            marker={"size": 7},
            text=[names[position] for position in path.positions],
            hovertemplate="%{text}<extra></extra>",
            **_look(rank, path),
        )
    ticks = ["input", *(f"after layer {layer}" for layer in range(n_layers))]
    return figure.update_yaxes(tickvals=list(range(n_layers + 1)), ticktext=ticks, showgrid=False, automargin=True)


def _figure(paths: Sequence[Path], names: Sequence[str], title: str, subtitle: str) -> tuple[go.Figure, list[str]]:
    """A framed figure over the tokens, with room for a legend of paths; and the tokens as Plotly takes them."""
    if not paths:
        raise ValueError("there is no path to draw: none of positive weight leads from this query to this key")
    names = literal(names)
    figure = framed(go.Figure(), title, subtitle, height=400 + 24 * len(paths))
    figure.update_layout(margin={"b": 110 + 22 * len(paths)}, legend={"orientation": "v"})
    figure.update_xaxes(title="position:token", tickangle=-90, showgrid=False, range=[-0.7, len(names) - 0.3])
    return figure.update_xaxes(**thinned(names, 64)), list(names)


def _look(rank: int, path: Path) -> dict[str, Any]:
    """A path's line, and its name in the legend: rank, weight and edges; across layers those through heads."""
    line = {"color": PALETTE[rank % len(PALETTE)], "width": max(1.5, 4.5 - rank)}
    way = " → ".join(_shortened([str(position) for position in path.positions]))
    if len(set(path.layers)) > 1:
        edges = zip(pairwise(path.positions), path.layers, path.heads, strict=True)
        through = [f"layer {at} head {head} {q} → {k}" for (q, k), at, head in edges if head is not None]
        way = ", ".join(_shortened(through)) or "the residual stream alone"
    name = f"{rank + 1}: {way}, weight {path.weight:.3g}"
    return {"line": line, "name": name, "legendgroup": str(rank), "legendrank": rank}


def _shortened(steps: list[str]) -> list[str]:
    """The first steps and the last step of a long path, for the legend; the figure itself draws the whole path."""
    return steps if len(steps) <= MOST_NAMED else [*steps[: MOST_NAMED - 2], f"… {len(steps)} in all …", steps[-1]]
