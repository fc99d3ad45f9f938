"""What differs on one input that two models read: attention, query by query, and the residual, cell by cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.capture import Capture
from workbench.figures.attention import weight_in_words
from workbench.figures.drawing import Drawing, element
from workbench.figures.style import BLUE, GREY, VERMILLION, cells, faint, framed, literal, thinned
from workbench.figures.token_page import TokenPage, answer_rows, part_drawn, window
from workbench.instruments.lens import lens_difference
from workbench.instruments.residual import projection
from workbench.measurement import Measurement
from workbench.measurement.places import point_name

# More in the first, nothing, more in the second: the two sides' own colours; zero is the page itself, light or dark.
BETWEEN = [[0.0, BLUE], [0.5, faint(BLUE, 0.0)], [0.5, faint(VERMILLION, 0.0)], [1.0, VERMILLION]]
HALF = 15  # height of half a cell, in pixels


def attention_difference(
    first: Measurement,
    second: Measurement,
    which: str = "pattern",
    *,
    names: tuple[str, str] = ("A", "B"),
    start: int = 0,
) -> go.Figure:
    """Two heads' attention on the same tokens, the second less the first, as a heat map of queries and keys.

    The scale runs as far to either side; where both are alike nothing is drawn.

    Args:
        first, second: `attention_graph.matrices(...)` of each.
        which: `pattern`, `A²`, ..., or `resolvent`, of both.
        names: what to call the two, briefly.
        start: the first position drawn; at most `WIDEST` are.

    Raises:
        ValueError: if there is no such matrix or position, or the two are not over the same tokens.
    """
    parts = (first.select(matrix=which), second.select(matrix=which))
    words = list(parts[0].coords["query"])
    if words != list(parts[1].coords["query"]):
        raise ValueError("the two heads did not read the same tokens, so their attention has no difference")
    places = window(len(words), start)
    drawn = slice(places.start, places.stop)
    shown = literal(words[drawn])
    what = weight_in_words(np.stack([part.values for part in parts]))
    figure = _difference_map(parts[0].values[drawn, drawn], parts[1].values[drawn, drawn], shown, what)
    about = _colours_in_words(parts, names)
    if len(shown) < len(words):
        about += f"; positions {start} to {start + len(shown) - 1} of {len(words)}"
    framed(figure, f"Difference of attention: {which}", about, height=740, legend=False)
    figure.update_layout(margin={"t": 106}, width=840)
    axis: dict[str, Any] = {"showgrid": False, "constrain": "domain"}  # queries down, keys across
    last = len(shown) - 0.5
    figure.update_xaxes(title="key (position:token)", tickangle=-90, range=[-0.5, last], **axis, **thinned(shown, 48))
    figure.update_yaxes(title="query (position:token)", automargin=True, range=[last, -0.5], scaleanchor="x", **axis)
    return figure.update_yaxes(**thinned(shown, 40))


def _difference_map(first: np.ndarray, second: np.ndarray, words: list[str], what: str) -> go.Figure:
    """The second matrix less the first as a heat map; hovering shows both values."""
    most = float(np.abs(second - first).max()) or 1.0
    return go.Figure().add_heatmap(
        z=second - first,
        zmin=-most,
        zmax=most,
        **cells(BETWEEN, what, tickformat="+.2f"),
        customdata=np.stack([first, second], axis=-1),
        text=[[f"{query} reads {key}" for key in words] for query in words],
        hovertemplate="%{text}: %{customdata[0]:.3f} and %{customdata[1]:.3f}, which is %{z:+.3f}<extra></extra>",
    )


def _colours_in_words(parts: tuple[Measurement, Measurement], names: tuple[str, str]) -> str:
    """The subtitle: which colour belongs to which head."""
    sides = []
    for colour, name, side in zip(("blue", "orange"), names, parts, strict=True):
        of = "{model}, layer {layer}, head {head}".format_map(side.settings)
        sides.append(f"{colour}: more in {name} ({of})")
    rows = ", rows scaled to sum to 1" if parts[0].settings["matrix"] == "resolvent" else ""
    return f"{'; '.join(sides)}<br>{names[1]} minus {names[0]}{rows}"


def residual_difference(
    first: Capture, second: Capture, *, basis: str = "decoder", names: tuple[str, str] = ("A", "B"), start: int = 0
) -> Drawing:
    """The residual's top token in both models at every layer and position that both have; where they differ, both.

    Args:
        first, second: captures of one batch each, of which the first example is drawn: the same tokens.
        basis: `encoder` or `decoder`; the largest inner product, on the decoder basis after the final norm.
        names: what to call the two, briefly.
        start: the first position drawn; at most `WIDEST` are.

    Raises:
        ValueError: if they did not see the same tokens, or there is no such basis or position.
    """
    points = lens_difference.shared_points(first, second)
    words = projection.sequence(first, 0)
    drawn = window(len(words), start)
    tables = [projection.top_tokens(seen, top=1, points=points) for seen in (first, second)]
    labels = [table.select(basis=basis, rank=1).labels for table in tables]
    assert labels[0] is not None and labels[1] is not None
    page = TokenPage(words, drawn)
    page.tokens()
    for row, point in enumerate(points):
        _cells(page, point_name(point), (labels[0][row], labels[1][row]), names)
    page.height += 6
    (first_row, *right), (second_row, *_) = answer_rows(first), answer_rows(second)
    answers = zip(names, (first_row, second_row), strict=True)
    page.rows([*(replace(row, name=f"{name}: {row.name}") for name, row in answers), *right])
    n = int((labels[0] != labels[1]).sum())
    who = [f"{name} ({seen.subject.name})" for name, seen in zip(names, (first, second), strict=True)]
    notes = f"{n} of {labels[0].size} cells differ: upper half {who[0]}, lower half {who[1]}; {basis} basis"
    notes += part_drawn(drawn, len(words))
    return Drawing("Where the residual's top tokens differ", notes, page.body(), page.width, page.height + 6)


def _cells(page: TokenPage, name: str, labels: tuple[np.ndarray, np.ndarray], names: tuple[str, str]) -> None:
    """One row: a token where both agree, two halves where they do not."""
    middle = page.height + HALF
    page.name(name, middle)
    for i in page.window:
        box: dict[str, Any] = {"x": page.x(i) - page.column / 2 + 0.5, "width": page.column - 1}
        one, other = str(labels[0][i]), str(labels[1][i])
        if one == other:
            tip = f"{name} at {page.at(i)}: {one} in both"
            cell = element(
                "rect", y=page.height + 0.5, height=2 * HALF - 1, fill=GREY, fill_opacity=0.08, data_tip=tip, **box
            )
            page.parts.append(cell + page.word(one, i, middle, size=11.5, class_="quiet"))
            continue
        tip = f"{name} at {page.at(i)}: {one} in {names[0]}, {other} in {names[1]}"
        for word, colour, y in ((one, BLUE, page.height + 0.5), (other, VERMILLION, middle)):
            half = element("rect", y=y, height=HALF - 0.5, fill=colour, fill_opacity=0.35, data_tip=tip, **box)
            page.parts.append(half + page.word(word, i, y + HALF / 2, size=11))
        edge = element(
            "rect", y=page.height + 0.5, height=2 * HALF - 1, fill="none", stroke=GREY, stroke_width=1.5, **box
        )
        page.parts.append(edge)
    page.height += 2 * HALF
