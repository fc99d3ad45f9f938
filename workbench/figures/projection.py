"""Tokens in the residual: maps of the top one, on either basis or through a lens, and the bars behind one cell.

Also how chosen tokens fare at one position, layer by layer; and principal components, coloured by a label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from workbench.figures.drawing import Drawing, element, shortened, text
from workbench.figures.style import (
    BLUE,
    DASHES,
    GREEN,
    GREY,
    PALE,
    PALETTE,
    SEQUENCE,
    SYMBOLS,
    cells,
    framed,
    literal,
    thinned,
)
from workbench.instruments.residual.components import SHUFFLED, TRUE, Components
from workbench.instruments.residual.projection import BASES
from workbench.measurement import Measurement
from workbench.measurement.numbers import percent
from workbench.measurement.places import point_name

HALF, WORDS, NUMBERS = 260, 88, 48  # pixels: each basis, its words, the numbers behind its bars
TOP, BAR = 26, 24  # pixels above the bars, and of each


def projection_map(table: Measurement, basis: str = "decoder") -> go.Figure:
    """The top token at every residual point (rows) and position (columns) on one basis.

    A cell's marker carries `customdata = [point, position index]`, for a page that listens to clicks.

    Args:
        table: `projection.top_tokens(...)`.
        basis: `encoder`, `decoder`, or the name of one's own.
    """
    what = "token" if basis in BASES else "direction"
    subtitle = f"{table.settings['model']}: the {what} with the largest {table.units}{normed(table, basis)}"
    title = f"Top token in the {basis} basis" if basis in BASES else f"Top direction of {basis}"
    best = table.select(basis=basis, rank=1)
    if basis not in BASES and best.labels is not None and all("=" in str(name) for name in best.labels.flat):
        short = np.array([str(name).split("=", 1)[1] for name in best.labels.flat]).reshape(best.labels.shape)
        best = replace(best, labels=short)  # of a label's classes: cells are narrow
    return token_map(best, title, subtitle)


def token_map(best: Measurement, title: str, subtitle: str) -> go.Figure:
    """A token in every cell, over points (rows) and positions (columns), the shade its value.

    Args:
        best: dims `point`, `position`, the tokens in its labels.
        title, subtitle: of the figure.
    """
    assert best.labels is not None
    points, positions, words = list(best.coords["point"]), literal(best.coords["position"]), literal(best.labels)
    figure = go.Figure()
    figure.add_heatmap(
        z=best.values,
        text=words,
        texttemplate="%{text}" if len(positions) <= 72 else None,
        textfont={"size": 13 if len(positions) <= 32 else 10},
        hoverinfo="skip",
        **cells(PALE, best.units, gap=1),
    )
    places = [(row, column) for row in range(len(points)) for column in range(len(positions))]
    figure.add_scatter(  # a heat map returns no clicks, markers do
        x=[column for _, column in places],
        y=[row for row, _ in places],
        mode="markers",
        marker={"size": 16, "color": "rgba(0,0,0,0)"},
        customdata=[[points[row], column] for row, column in places],
        text=[
            f"{points[row]} at {positions[column]}: {words[row, column]} ({best.values[row, column]:.3g})"
            for row, column in places
        ],
        hovertemplate="%{text}<extra></extra>",
    )
    framed(figure, title, subtitle, height=190 + 34 * len(points), legend=False)
    figure.update_xaxes(title="position:token", showgrid=False, tickangle=-90, **thinned(positions, 64))
    figure.update_xaxes(range=[-0.5, len(positions) - 0.5])
    figure.update_yaxes(title="point of the residual", showgrid=False, automargin=True, range=[-0.5, len(points) - 0.5])
    return figure.update_yaxes(tickvals=list(range(len(points))), ticktext=[point_name(point) for point in points])


def lens_map(table: Measurement) -> go.Figure:
    """A map of the token that each residual decodes to (rows: points, columns: positions), shaded by its probability.

    Args:
        table: `logit_lens.lens_tokens(...)`.
    """
    lens, model = table.settings["lens"], table.settings["model"]
    subtitle = f"{model}: the most probable token when each residual is decoded; the top row is the model's output"
    figure = token_map(table, f"What each layer says through the {lens} lens", subtitle)
    return figure.update_traces(zmin=0, zmax=1, selector={"type": "heatmap"})


def projection_bars(table: Measurement, point: str, position: int) -> Drawing:
    """The largest components at one residual point and position, encoder and decoder basis side by side.

    Args:
        table: `projection.top_tokens(...)`.
        point: hook name, for example `blocks.0.hook_resid_mid`.
        position: index of the position.

    Raises:
        ValueError: if the table has no such point or position.
    """
    places = table.coords["position"]
    if not 0 <= position < len(places):
        raise ValueError(f"there is no position {position}; the table has {len(places)}")
    names = {"encoder": "encoder (input)", "decoder": "decoder (output)"}
    sides = []
    for x, (basis, colour) in zip((0, HALF), {"encoder": GREEN, "decoder": BLUE}.items(), strict=True):
        part = table.select(basis=basis, point=point, position=places[position])
        sides.append(_bars(part, x, names[basis], colour))
    title = f"Tokens at position {places[position]}, {point_name(point)}"
    subtitle = f"{table.settings['model']}: largest {table.units}s{normed(table)}"
    return Drawing(title, subtitle, "".join(sides), 2 * HALF, TOP + BAR * len(table.coords["rank"]) + 6)


def _bars(part: Measurement, x: float, name: str, colour: str) -> str:
    """One basis: a token and a bar a line, the largest on top; bars of negative values point the other way."""
    assert part.labels is not None
    low, high = min(0.0, float(part.values.min())), max(0.0, float(part.values.max()))
    scale = (HALF - WORDS - NUMBERS) / ((high - low) or 1.0)
    zero, height = x + WORDS - low * scale, BAR * len(part.values)
    pieces = [text(name, x + WORDS, 12, 13, text_anchor="start", font_weight=600)]
    for i, (word, value) in enumerate(zip(part.labels, part.values, strict=True)):
        y, size = TOP + BAR * (i + 0.5), abs(float(value)) * scale
        left = zero if value >= 0 else zero - size
        tip = f"{word}: {value:.4g} {part.units}"
        about = {"data_tip": tip, "class_": f"token-{part.settings['basis']}"}
        pieces.append(text(shortened(str(word), 12), x + WORDS - 8, y, 13, text_anchor="end", **about))
        bar: dict[str, Any] = {"x": left, "y": y - BAR / 2 + 3, "width": size, "height": BAR - 6}
        pieces.append(element("rect", **bar, rx=2, fill=colour, fill_opacity=0.75, data_tip=tip))
        pieces.append(text(f"{value:.3g}", max(zero, left + size) + 6, y, 11, text_anchor="start", class_="quiet"))
    line: dict[str, Any] = {"x1": zero, "x2": zero, "y1": TOP, "y2": TOP + height}
    return "".join(pieces) + element("line", **line, stroke=GREY, stroke_width=1)


def normed(table: Measurement, basis: str | None = None) -> str:
    """Words that say whether the decoder basis was read after the final norm; none if `basis` is another one."""
    if basis not in (None, "decoder"):
        return ""
    after = "after the final norm" if table.settings["final_norm"] else "before the final norm"
    return f", {after}" if basis else f", the decoder basis {after}"


MOST_DRAWN = 2000  # rows, evenly spaced; the numbers are of all
MOST_TICKS = 8  # of the scale, in words


def components(found: Components, x: int = 1, y: int = 2) -> go.Figure:
    """Rows on two principal components: few classes in colours of their own, more of them on a scale of numbers.

    Args:
        found: `inspection.components.components(…)`.
        x, y: the components, from 1.
    """
    m, classes = found.scores, np.array(found.scores.settings["class"])
    assert m.labels is not None, "every row has a class"
    drawn, classed = _spaced(len(classes), MOST_DRAWN), literal(m.labels[0])
    across, up, words = m.select(component=x).values[drawn], m.select(component=y).values[drawn], classed[drawn]
    label, figure = str(m.settings["label"]), go.Figure()
    each: dict[str, Any] = {"mode": "markers", "hovertemplate": f"{label} %{{text}}<extra></extra>"}
    known = np.unique(classes)
    if len(known) <= len(PALETTE):
        for number, one in enumerate(known):
            of_class = classes[drawn] == one
            name = str(classed[int((classes == one).argmax())])
            marker = {"color": PALETTE[number], "symbol": SYMBOLS[number], "size": 6, "opacity": 0.7}
            figure.add_scatter(
                x=across[of_class], y=up[of_class], text=words[of_class], name=f"{label} {name}", marker=marker, **each
            )
    else:
        ticks = known[_spaced(len(known), MOST_TICKS)]
        names = [str(classed[int((classes == one).argmax())]) for one in ticks]
        marker = {"color": classes[drawn], "size": 6, "opacity": 0.7}
        marker |= cells(SEQUENCE, label, tickvals=ticks, ticktext=names)
        figure.add_scatter(x=across, y=up, text=words, marker=marker, **each)
    some = f", {len(drawn):,} of them drawn" if len(drawn) < len(classes) else ""
    said = f"{m.settings['model']}, {point_name(m.settings['point'])}; {len(classes):,} rows{some}; "
    own, shuffled = (float(found.between.select(within="all", labels=labels).values) for labels in (TRUE, SHUFFLED))
    said += f"between classes {percent(own)} of variance, shuffled labels {percent(shuffled)}"
    framed(figure, f"Principal components by {label}", said, height=520, legend=len(known) <= len(PALETTE))
    for update, axis in ((figure.update_xaxes, x), (figure.update_yaxes, y)):
        update(title=f"component {axis} ({percent(float(found.explained.select(component=axis).values))} of variance)")
    return figure


def _spaced(n: int, most: int) -> np.ndarray:
    """Indices of `n` things, evenly spaced, `most` of them at most."""
    return np.linspace(0, n - 1, min(n, most)).round().astype(int)


def token_trajectory(measurement: Measurement) -> go.Figure:
    """One line a token, encoder and decoder basis side by side; those the truth names say so in the legend.

    Args:
        measurement: `trajectory(...)`, or `ranks(...)`, whose axis is logarithmic and has 1 on top.
    """
    m = measurement
    names = {"encoder": "encoder basis (as input)", "decoder": "decoder basis (as output)"}
    figure = make_subplots(rows=1, cols=2, subplot_titles=list(names.values()), horizontal_spacing=0.09)
    for column, basis in enumerate(names, start=1):
        for i, token in enumerate(m.coords["token"]):
            line = m.select(basis=basis, token=token)
            roles = [role for role, word in m.settings["roles"].items() if word == token]
            figure.add_scatter(
                x=[point_name(point) for point in m.coords["point"]],
                y=line.values,
                name=f"{literal(token)} ({', '.join(roles)})" if roles else literal(token),
                legendgroup=str(i),
                showlegend=column == 1,
                mode="lines+markers",
                line={
                    "color": PALETTE[i % len(PALETTE)] if roles or len(m.coords["token"]) <= len(PALETTE) else GREY,
                    "dash": DASHES[i // len(PALETTE) % len(DASHES)],
                    "width": 2.5 if roles else 1.5,
                },
                marker={"symbol": SYMBOLS[i % len(SYMBOLS)], "size": 8 if roles else 6},
                row=1,
                col=column,
            )
    where, words = m.settings["position"], m.settings["input"]
    subtitle = f"{m.settings['model']}, position {where} of {len(words)}{normed(m)}"
    framed(figure, f"{m.name}: {literal(words[where])} at position {where}", subtitle, height=440)
    figure.update_layout(margin={"t": 112})
    figure.update_xaxes(title="point of the residual", type="category")
    figure.update_yaxes(title=m.units, col=1)
    if m.units == "rank":
        ticks = [rank * 10**k for k in range(6) for rank in (1, 2, 5)]
        figure.update_yaxes(title="rank (1 is the largest)", col=1)
        return figure.update_yaxes(type="log", autorange="reversed", tickvals=ticks, matches="y")
    return figure.update_yaxes(zeroline=True, zerolinecolor=GREY)
