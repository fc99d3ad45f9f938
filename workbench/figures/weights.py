"""The weights alone: heads' singular vectors and entries, which heads compose; the bases, and how they overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.curves import interval
from workbench.figures.drawing import Drawing, element, text
from workbench.figures.style import BLUE, DIVERGING, GREY, LINE, PALETTE, SHADES, VERMILLION, framed, literal, thinned
from workbench.interventions import head_in_words
from workbench.measurement import Measurement
from workbench.measurement.numbers import number

WIDE, TALL, TOP, MARGIN = 440, 200, 10, 52  # pixels of the bars of an entry, and left of them
MOST_NUMBERS = 16


def singular_vectors(m: Measurement, *, most: int = 12) -> go.Figure:
    """The tokens of a circuit's strongest singular directions, as a table: what each reads, and what it writes.

    Args:
        m: dims `direction`, `side`, `rank`, with the tokens as labels (`token_circuits.singular_vectors`).
        most: directions that are shown.
    """
    assert m.labels is not None
    every, sigma = len(m.labels), m.settings["singular_values"][:most]
    columns: list[list[str]] = [[f"{value:.2f}" for value in sigma]]
    for side in range(2):
        columns.append(["  ".join(literal(row)) for row in m.labels[:most, side]])
    sides = ("query side", "key side") if m.settings["kind"] == "QK" else ("reads", "writes")
    table: Any = go.Table(
        columnwidth=[1, 5, 5],
        header={"values": ["σ", *sides], "align": "left"},
        cells={"values": columns, "align": "left", "height": 26},
    )
    framed(
        figure := go.Figure(table),
        f"{m.name}, {head_in_words(m.settings['layer'], m.settings['head'])}",
        f"{m.settings['model']}: tokens with the largest components; {len(sigma)} of {every} directions",
        height=190 + 26 * len(sigma),
        legend=False,
    )
    return figure.update_layout(margin={"l": 0, "r": 0})


def circuit_entry(m: Measurement) -> Drawing:
    """What each singular direction gives to one entry of a circuit, as bars.

    Args:
        m: dim `direction` (`token_circuits.path`).
    """
    low, high = min(0.0, float(m.values.min())), max(0.0, float(m.values.max()))
    scale, across = TALL / ((high - low) or 1.0), (WIDE - MARGIN) / len(m.values)
    zero, parts = TOP + high * scale, []
    for i, value in enumerate(m.values.tolist()):
        top = zero - max(value, 0.0) * scale
        bar: dict[str, Any] = {"x": MARGIN + across * (i + 0.1), "y": top, "width": across * 0.8}
        colour, tip = BLUE if value >= 0 else VERMILLION, f"direction {i}: {value:.4g} {m.units}"
        parts.append(element("rect", **bar, height=max(abs(value) * scale, 0.5), fill=colour, data_tip=tip))
    for i in range(0, len(m.values), -(-len(m.values) // MOST_NUMBERS)):
        parts.append(text(str(i), MARGIN + across * (i + 0.5), TOP + TALL + 14, 11, class_="quiet"))
    ends = {end for end in (high, low) if abs(end) * scale > LINE}  # a label nearer to that of 0 would lie on it
    for value in {0.0, *ends}:
        parts.append(text(f"{value:.3g}", MARGIN - 6, zero - value * scale, 11, text_anchor="end", class_="quiet"))
    parts.append(element("line", x1=MARGIN, x2=WIDE, y1=zero, y2=zero, stroke=GREY))
    parts.append(text("singular direction, strongest first", (MARGIN + WIDE) / 2, TOP + TALL + 32))
    said = f"{m.settings['from']} → {m.settings['to']}: {number(m.settings['entry'], m.units)}, the sum of the bars"
    title = f"{m.name}, {head_in_words(m.settings['layer'], m.settings['head'])}"
    return Drawing(title, said, "".join(parts), WIDE + 4, TOP + TALL + 44)


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
    said = f"{m.settings['model']}: in the weights alone; random ones have about {number(m.settings['random'])}"
    framed(figure, f"{kind}-composition", said, height=280 + 22 * len(names), legend=False)
    figure.update_xaxes(title="head that reads (layer.head)", type="category", showgrid=False)
    return figure.update_yaxes(
        title="head that writes", type="category", showgrid=False, autorange="reversed", automargin=True
    )


PANELS = {
    "encoder": "encoder with encoder",
    "decoder": "decoder with decoder",
    "across": "encoder (rows) with decoder (columns)",
}


def basis_cosines(cosines: Measurement) -> go.Figure:
    """Cosines within each basis and across the two, as three heat maps.

    Args:
        cosines: `basis_overlap.basis_cosines(...)`.
    """
    titles = list(PANELS.values())
    figure = make_subplots(rows=1, cols=3, subplot_titles=titles, shared_yaxes=True, horizontal_spacing=0.03)
    words = literal(cosines.coords["first"])
    for column, pair in enumerate(PANELS, start=1):
        figure.add_heatmap(
            z=cosines.select(pair=pair).values,
            customdata=[[f"{first} with {second}" for second in words] for first in words],
            hovertemplate="%{customdata}: %{z:.3f}<extra></extra>",
            coloraxis="coloraxis",
            row=1,
            col=column,
        )
    subtitle = f"{cosines.settings['model']}: between the vectors of two tokens, d_model {cosines.settings['d_model']}"
    framed(figure, "How nearly orthogonal the bases are", subtitle, height=500, legend=False)
    bar = {"title": {"text": "cosine", "side": "top"}, "thickness": 12, "outlinewidth": 0}
    figure.update_layout(margin={"t": 112, "r": 80})
    figure.update_layout(coloraxis={"colorscale": DIVERGING, "cmin": -1, "cmax": 1, "colorbar": bar}, width=1180)
    figure.update_annotations(font={"size": 13})
    figure.update_xaxes(title="token", showgrid=False, tickangle=-90, constrain="domain", **thinned(words, 24))
    figure.update_yaxes(autorange="reversed", showgrid=False, constrain="domain", **thinned(words, 24))
    for column in (1, 2, 3):
        figure.update_yaxes(scaleanchor=f"x{column if column > 1 else ''}", row=1, col=column)
    return figure.update_yaxes(title="token", col=1)


def basis_overlap(runs: Mapping[str, Measurement]) -> go.Figure:
    """Mean |cosine| within and across the bases, runs side by side, the last group what random directions have.

    Args:
        runs: name -> `basis_overlap.measure(...)`, or its mean over seeds.
    """
    figure = go.Figure()
    for i, (name, m) in enumerate(runs.items()):
        figure.add_bar(
            x=list(m.coords["pair"]),
            y=m.values,
            name=f"{name} (d_model {m.settings['d_model']})" if "d_model" in m.settings else name,
            error_y=interval(m),
            marker={"color": PALETTE[i % len(PALETTE)]},
            text=[f"{value:.3f}" for value in m.values],
            textposition="outside",
            cliponaxis=False,
        )
    over_seeds = any(m.low is not None for m in runs.values())
    bars = "bars are 95 % intervals over seeds" if over_seeds else "no sampling, so no intervals"
    subtitle = f"mean |cosine| between the vectors of two tokens, every pair; {bars}"
    framed(figure, "Overlap of the bases", subtitle)
    return figure.update_yaxes(title="mean |cosine|", rangemode="tozero").update_xaxes(title="pairs of vectors")
