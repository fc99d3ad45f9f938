"""A figure for print has the width that it is printed at, and no text smaller than 7 points or wider than the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from workbench.figures import style
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


POINT = SMALL * PIXELS_PER_INCH / 72  # pixels of a letter's height
LETTER = 0.4 * POINT  # pixels that a letter of a word takes at least, on average


def wide(text: str) -> float:
    """Pixels that a text takes at least."""
    return max(len(line) for line in text.replace("<b>", "").replace("</b>", "").split("<br>")) * LETTER


def plot_width(figure: go.Figure, axis: Any) -> float:
    """Pixels of an axis across."""
    margin, (start, end) = figure.layout.margin, axis.domain or (0, 1)
    return (figure.layout.width - margin.l - margin.r) * (end - start)


def plot_height(figure: go.Figure) -> float:
    return figure.layout.height - figure.layout.margin.t - figure.layout.margin.b


@pytest.mark.parametrize("width", INCHES)
def test_a_legend_of_sixteen_long_names_has_room_for_all_of_them(width: str) -> None:
    names = [f"layer 0, head {head}, {what}" for head in range(4) for what in ("seen", "with shuffled truth") * 2]
    figure = go.Figure([go.Scatter(y=[1, 2], name=name, legendgroup=name) for name in names])
    made = for_paper(style.framed(figure, "Many"), width)
    columns: dict[str, list[str]] = {}
    for trace in made.data:
        columns.setdefault(trace.legend, []).append(trace.name)
        assert trace.name.replace("<br>", " ") in names
    for name, own in columns.items():
        legend = made.layout[name]
        needed = sum(max(16, (text.count("<br>") + 1) * 1.3 * POINT) + 3 for text in own)
        assert legend.maxheight == 1 and needed <= legend.y * made.layout.height <= made.layout.margin.b
        others = [made.layout[other].x for other in columns if made.layout[other].x > legend.x]
        end = min(others, default=1) * made.layout.width
        assert legend.x * made.layout.width + 40 + max(map(wide, own)) <= end


def three(columns: int = 3) -> go.Figure:
    """Plots beside each other over the points of the residual, as those of a report are."""
    headings = [f"encoder, before the MLP {column}" for column in range(columns)]
    figure = make_subplots(rows=1, cols=columns, shared_yaxes=True, subplot_titles=headings)
    for column in range(columns):
        points = ["embedding", "after attention 0", "after MLP 0"]
        figure.add_scatter(x=points, y=[0.1, 0.2, 0.3], row=1, col=column + 1, showlegend=False)
    return style.framed(figure, "Three", legend=False).update_yaxes(title="share", col=1)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("width", INCHES)
def test_words_at_the_ticks_of_several_columns_do_not_overlap(width: str, columns: int) -> None:
    made = for_paper(three(columns), width)
    for axis in made.select_xaxes():
        slot = plot_width(made, axis) / len(axis.ticktext)
        if axis.tickangle == -90:
            assert all((text.count("<br>") + 1) * POINT <= slot for text in axis.ticktext)
            assert max(map(wide, axis.ticktext)) <= made.layout.margin.b
        else:
            assert max(map(wide, axis.ticktext)) <= slot
        (heading,) = (note for note in made.layout.annotations if note.text.endswith(str(_number(axis))))
        assert wide(heading.text) <= plot_width(made, axis) and heading.x == pytest.approx(sum(axis.domain) / 2)


def _number(axis: Any) -> int:
    return int(axis.plotly_name.removeprefix("xaxis") or 1) - 1


def test_columns_that_are_too_narrow_go_on_in_a_further_row() -> None:
    made, page = for_paper(three(4)), for_paper(three(4), "page")
    assert len({axis.domain for axis in made.select_yaxes()}) == 2 and made.layout.height > page.layout.height
    assert len({axis.domain for axis in page.select_yaxes()}) == 1
    assert [note.text for note in made.layout.annotations].count("share") == 2  # where a row begins
    assert made.layout.yaxis3.showticklabels and not page.layout.yaxis3.showticklabels


def cells(columns: int, text: str) -> go.Figure:
    rows = [[text] * columns] * 4
    names = [f"{i}:{i}" for i in range(columns)]
    figure = go.Figure(go.Heatmap(z=[[0.5] * columns] * 4, text=rows, texttemplate="%{text}"))
    figure.update_xaxes(tickvals=list(range(columns)), ticktext=names, tickangle=-90)
    return style.framed(figure, "Cells", legend=False)


@pytest.mark.parametrize("width", INCHES)
@pytest.mark.parametrize("columns", [4, 7, 16, 32, 80])
def test_cells_have_text_only_where_it_fits_and_ticks_stand_apart(width: str, columns: int) -> None:
    text = "100%<br>(12%)"
    made = for_paper(cells(columns, text), width)
    across = plot_width(made, made.layout.xaxis)
    (heat,) = made.data
    if heat.texttemplate:
        assert wide(text) <= across / columns and plot_height(made) / 4 >= 2 * POINT
        assert heat.textfont.size == pytest.approx(POINT)
    assert bool(heat.texttemplate) == (columns == 4 or (columns <= 16 and width == "page") or columns == 7)
    assert len(made.layout.xaxis.ticktext) * POINT <= across


@pytest.mark.parametrize("width", INCHES)
def test_text_beside_bars_ends_before_the_edge(width: str) -> None:
    names, words = ["first", "second"], "98.7% (97.7 to 98.9)"
    figure = go.Figure(go.Bar(x=[1.0, 0.4], y=names, orientation="h"))
    beside = {"mode": "text", "text": [words] * 2, "textposition": "middle right", "cliponaxis": False}
    figure.add_scatter(x=[1.01] * 2, y=names, **beside).update_xaxes(range=[0, 1.1])
    made = for_paper(style.framed(figure, "Bars", legend=False), width)
    (low, high), text = made.layout.xaxis.range, made.data[1].text[0]
    left = plot_width(made, made.layout.xaxis) * (high - 1.01) / (high - low)
    assert wide(text) <= left and text.replace("<br>", " ") == words


@pytest.mark.parametrize("width", INCHES)
def test_numbers_on_bars_are_turned_where_they_are_wider(width: str) -> None:
    bars = [go.Bar(x=list("abcde"), y=[0.1] * 5, text=["0.100"] * 5, textposition="outside") for _ in range(2)]
    made = for_paper(style.framed(go.Figure(bars), "Bars", legend=False), width)
    bar = 0.8 * plot_width(made, made.layout.xaxis) / 10
    assert [trace.textangle for trace in made.data] == [-90 if width == "column" else None] * 2
    assert bar >= POINT if width == "column" else wide("0.100") <= bar


def test_no_two_names_of_peaks_lie_over_one_another() -> None:
    figure = go.Figure(go.Bar(x=list(range(32)), y=[0.1] * 32))
    for x, y in ((4, 1.0), (5, 0.98), (6, 0.97)):
        figure.add_scatter(x=[x], y=[y], mode="markers+text", text=[f"<b>1{x}</b>"], textposition="top center")
    figure.update_layout(showlegend=False).update_xaxes(range=[-4, 35]).update_yaxes(range=[0, 1.2])
    named = [(trace.text[0], trace.textposition[0]) for trace in for_paper(figure).data[1:] if trace.text[0]]
    assert named[0] == ("<b>14</b>", "top center")
    assert len({place for _, place in named}) == len(named)


def test_a_height_is_kept_if_what_is_in_it_fits() -> None:
    bar = go.Figure(go.Bar(y=[1, 2]))
    assert for_paper(bar, words=False, height=300).layout.height == pytest.approx(300, abs=1)
    assert for_paper(bar, words=False, height=20).layout.height > 85


def test_a_second_axis_at_the_right_has_room_for_its_title() -> None:
    figure = go.Figure([go.Scatter(y=[0, 1]), go.Bar(y=[100, 2000], yaxis="y2")])
    figure.update_layout(yaxis2={"overlaying": "y", "side": "right", "title": "added"}, showlegend=False)
    made = for_paper(figure)
    (title,) = made.layout.annotations
    assert title.text == "added" and wide("2000") < title.xshift < made.layout.margin.r - POINT / 2
