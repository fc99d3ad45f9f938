"""A figure for print has the width that it is printed at, and no text smaller than 7 points or wider than the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from workbench.figures.for_paper import INCHES, LARGE, PIXELS_PER_INCH, SMALL, for_paper
from workbench.studies import STUDIES, read_ledger

LEDGER = Path(__file__).parents[2] / "docs" / "studies" / "ledger.json"
DRAWN = [
    pytest.param(figure, id=f"{one.name}-{number}")
    for one in read_ledger(LEDGER)
    for number, figure in enumerate(STUDIES[one.name].figures(one.groups))
]


def sizes(node: Any) -> list[float]:
    """Every font size in a figure's layout and traces, in points."""
    if isinstance(node, dict):
        own = [node["font"]["size"]] if isinstance(node.get("font"), dict) and "size" in node["font"] else []
        own += (
            [node["tickfont"]["size"]] if isinstance(node.get("tickfont"), dict) and "size" in node["tickfont"] else []
        )
        return [size * 72 / PIXELS_PER_INCH for size in own] + [
            size for value in node.values() for size in sizes(value)
        ]
    return [size for value in node for size in sizes(value)] if isinstance(node, list) else []


@pytest.mark.parametrize("width", INCHES)
@pytest.mark.parametrize("figure", DRAWN)
def test_every_figure_of_the_ledger_fits_its_width(figure: go.Figure, width: str) -> None:
    before = figure.to_json()
    made = for_paper(figure, width)
    assert figure.to_json() == before  # the figure itself stays as it is
    assert made.layout.width == pytest.approx(INCHES[width] * PIXELS_PER_INCH, abs=0.5)
    plots = made.layout.height - made.layout.margin.t - made.layout.margin.b
    assert 100 <= plots <= made.layout.width
    layout = json.loads(made.to_json())["layout"]
    layout.pop("template")
    found = sizes(layout)
    assert min(found) == pytest.approx(SMALL) and max(found) == pytest.approx(LARGE)
    lines = made.layout.title.text.split("<br>")
    longest = max(len(line.split(">")[-1] if line.startswith("<span") else line) for line in lines)
    assert longest * 0.5 * SMALL / 72 <= INCHES[width]


def test_a_long_title_is_folded_and_without_words_there_is_none() -> None:
    figure = go.Figure(layout={"title": {"text": "word " * 40, "subtitle": {"text": "more " * 60}}})
    made = for_paper(figure)
    text = made.layout.title.text
    assert text.count("<br>") >= 6 and text.count("word") == 40 and text.count("more") == 60
    assert made.layout.margin.t > for_paper(figure, "page").layout.margin.t
    assert for_paper(figure, words=False).layout.title.text is None


@pytest.mark.parametrize("width", ["wide", 0.5, 30, ""])
def test_a_width_that_no_page_has(width: Any) -> None:
    with pytest.raises(ValueError, match="a figure's width is column, page or 1 to 20 inches"):
        for_paper(go.Figure(), width)


def test_lines_and_marks_are_thinner() -> None:
    figure = go.Figure()
    figure.add_scatter(x=[1, 2], y=[1, 2], line={"width": 3}, marker={"size": 10}, error_y={"array": [1, 1]})
    (trace,) = for_paper(figure).data
    assert trace.line.width < 3 and trace.marker.size < 10 and trace.error_y.thickness < 1
    (same,) = figure.data
    assert same.line.width == 3 and same.marker.size == 10
