"""Heads in the weights alone: circuits between tokens, their singular vectors, and which heads compose."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import BLUE, DIVERGING, SHADES, VERMILLION, framed, thinned
from workbench.measurement import Measurement

MOST_TICKS = 40


def token_circuit(m: Measurement) -> go.Figure:
    """One head's circuit as a map: rows are the tokens it starts from, columns those it leads to.

    Args:
        m: dims `from`, `to`: `token_circuits.circuit`, or a matrix of `token_circuits.reads`.
    """
    rows, columns = (list(map(str, m.coords[dim])) for dim in ("from", "to"))
    signed = bool((m.values < 0).any())
    most = float(np.abs(m.values).max()) or 1.0
    figure = go.Figure(
        go.Heatmap(
            z=m.values,
            customdata=[[f"{row} → {column}" for column in columns] for row in rows],
            hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
            colorscale=DIVERGING if signed else SHADES,
            zmin=-most if signed else 0.0,
            zmax=most,
            colorbar={"title": {"text": m.units, "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    query, key = ("query", "key") if m.settings["kind"] == "QK" else ("token read", "logit of")
    framed(figure, f"{m.name}, {_place(m)}", f"{m.settings['model']}: bare tokens, no input", height=560, legend=False)
    figure.update_xaxes(title=key, showgrid=False, constrain="domain", **thinned(columns, MOST_TICKS))
    figure.update_yaxes(title=query, showgrid=False, autorange="reversed", **thinned(rows, MOST_TICKS))
    return figure


def _place(m: Measurement) -> str:
    return f"layer {m.settings['layer']}, head {m.settings['head']}"


def singular_vectors(m: Measurement, *, most: int = 12) -> go.Figure:
    """The tokens of a circuit's strongest singular directions, as a table: what each reads, and what it writes.

    Args:
        m: dims `direction`, `side`, `rank`, with the tokens as labels (`token_circuits.singular_vectors`).
        most: directions that are shown.
    """
    assert m.labels is not None
    every, sigma = len(m.labels), m.settings["singular_values"][:most]
    columns: list[list[str]] = [[f"{value:.2f}" for value in sigma]]
    for number in range(2):
        columns.append(["  ".join(map(str, row)) for row in m.labels[:most, number]])
    sides = ("query side", "key side") if m.settings["kind"] == "QK" else ("reads", "writes")
    table: Any = go.Table(
        columnwidth=[1, 5, 5],
        header={"values": ["σ", *sides], "align": "left"},
        cells={"values": columns, "align": "left", "height": 26},
    )
    framed(
        figure := go.Figure(table),
        f"{m.name}, {_place(m)}",
        f"{m.settings['model']}: tokens with the largest components; {len(sigma)} of {every} directions",
        height=190 + 26 * len(sigma),
        legend=False,
    )
    return figure.update_layout(margin={"l": 0, "r": 0})


def circuit_entry(m: Measurement) -> go.Figure:
    """What each singular direction gives to one entry of a circuit, as bars.

    Args:
        m: dim `direction` (`token_circuits.path`).
    """
    colours = [BLUE if value >= 0 else VERMILLION for value in m.values]
    hover = "direction %{x}: %{y:.3f}<extra></extra>"
    figure = go.Figure(go.Bar(x=list(m.coords["direction"]), y=m.values, marker_color=colours, hovertemplate=hover))
    said = f"{m.settings['from']} → {m.settings['to']}: {m.settings['entry']:.3f} {m.units}, the sum of the bars"
    framed(figure, f"{m.name}, {_place(m)}", said, height=330, legend=False)
    figure.update_xaxes(title="singular direction, strongest first", dtick=max(1, len(m.values) // 16), showgrid=False)
    return figure.update_yaxes(title=m.units)


def composition_scores(m: Measurement, kind: str) -> go.Figure:
    """How much each head reads of each earlier one, as a map: rows write, columns read.

    Args:
        m: `composition.measure`.
        kind: `Q`, `K` or `V`.
    """
    own = m.select(kind=kind)
    names = [f"{layer}.{head}" for layer in own.coords["layer"] for head in own.coords["head"]]
    values = own.values.reshape(len(names), len(names))
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=names,
            y=names,
            colorscale=SHADES,
            zmin=0.0,
            hovertemplate=f"head %{{y}} into the {kind} of head %{{x}}: %{{z:.3f}}<extra></extra>",
            colorbar={"title": {"text": "score", "side": "right"}, "thickness": 12, "outlinewidth": 0},
        )
    )
    said = f"{m.settings['model']}: in the weights alone; random ones have about {m.settings['random']:.2f}"
    framed(figure, f"{kind}-composition", said, height=280 + 22 * len(names), legend=False)
    figure.update_xaxes(title="head that reads (layer.head)", type="category", showgrid=False)
    return figure.update_yaxes(
        title="head that writes", type="category", showgrid=False, autorange="reversed", automargin=True
    )
