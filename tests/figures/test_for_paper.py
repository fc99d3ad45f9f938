"""A figure for print has the width that it is printed at, and no text smaller than 7 points, cut or over another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from plotly.offline import get_plotlyjs
from plotly.subplots import make_subplots

from tests.app.browsing import browsing
from workbench.figures import style
from workbench.figures.for_paper import INCHES, PIXELS_PER_INCH, for_paper
from workbench.studies import STUDIES, read_ledger

LEDGER = Path(__file__).parents[2] / "docs" / "studies" / "ledger.json"
DRAWN = [
    pytest.param(figure, id=f"{one.name}-{number}")
    for one in read_ledger(LEDGER)
    for number, figure in enumerate(STUDIES[one.name].figures(one.groups))
]
SMALL, LARGE = 7, 8  # points

FAULTS = """(figure) => Plotly.newPlot('plot', figure.data, figure.layout, {staticPlot: true}).then(plot => {
  const at = plot.getBoundingClientRect(), wide = plot._fullLayout.width, tall = plot._fullLayout.height;
  const boxes = [...plot.querySelectorAll('svg text')].filter(text => text.textContent.trim()).map(text => {
    const box = text.getBoundingClientRect();
    return {words: text.textContent, left: box.left - at.left, right: box.right - at.left,
            top: box.top - at.top, bottom: box.bottom - at.top};
  });
  const cut = boxes.filter(box => box.left < -1 || box.top < -2 || box.right > wide + 1 || box.bottom > tall + 2);
  const over = boxes.filter((one, i) => boxes.slice(0, i).some(other =>
    Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
    Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 2.5));
  const flat = Object.values(plot._fullLayout._plots).filter(one => one.xaxis._length < 60 || one.yaxis._length < 60);
  return [...cut.map(box => 'cut: ' + box.words), ...over.map(box => 'over another: ' + box.words),
          ...flat.map(() => 'a plot is too small')];
})"""


def sizes(node: Any) -> list[float]:
    """Every font size in a figure's layout, in points."""
    if isinstance(node, list):
        return [size for value in node for size in sizes(value)]
    if not isinstance(node, dict):
        return []
    fonts = [font for name in ("font", "tickfont") if isinstance(font := node.get(name), dict)]
    own = [font["size"] * 72 / PIXELS_PER_INCH for font in fonts if "size" in font]
    return own + [size for value in node.values() for size in sizes(value)]


@pytest.mark.parametrize("width", INCHES)
@pytest.mark.parametrize("figure", DRAWN)
def test_every_figure_of_the_ledger_has_the_width_and_text_of_print(figure: go.Figure, width: str) -> None:
    before = figure.to_json()
    made = for_paper(figure, width=width)
    assert figure.to_json() == before  # the figure itself stays as it is
    assert made.layout.width == pytest.approx(INCHES[width] * PIXELS_PER_INCH, abs=0.5)
    layout = json.loads(made.to_json())["layout"]
    layout.pop("template")
    assert min(sizes(layout)) == pytest.approx(SMALL) and max(sizes(layout)) == pytest.approx(LARGE)


def bars() -> go.Figure:
    names = ["standard, n_layers 2, with hints", "standard-then-chacal", "tempered attention", "ChaCAL learned"]
    figure = go.Figure([go.Bar(x=names, y=[0.2, 0.5, 0.9, 0.1], name=f"seed {seed}") for seed in range(2)])
    return style.framed(figure, "Whole answers right, of models with long names, in the test conditions")


def lines() -> go.Figure:
    names = ["plain", "hints", "tempered", "hints-tempered", "layer 0, head 1, with shuffled truth"] * 2
    figure = go.Figure([go.Scatter(y=[1, 2, 0], name=f"{name} {i}") for i, name in enumerate(names)])
    return style.framed(figure, "By length", "means over 10 seeds, a dot for each; whiskers are 95 % intervals" * 2)


def heat() -> go.Figure:
    names = [f"{i}:{i % 7}" for i in range(40)]
    figure = go.Figure(go.Heatmap(z=[[0.5] * 40] * 40, colorbar={"title": "share of the row"}))
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(tickvals=list(range(40)), ticktext=names)
    return style.framed(figure, "Pattern", height=760).update_xaxes(title="key").update_yaxes(title="query")


def columns() -> go.Figure:
    headings = [f"encoder, before the MLP {column}" for column in range(4)]
    figure = make_subplots(rows=1, cols=4, shared_yaxes=True, subplot_titles=headings)
    for column in range(4):
        points = ["embedding", "after attention 0", "after MLP 0"]
        figure.add_scatter(x=points, y=[0.1, 0.2, 0.3], row=1, col=column + 1, showlegend=False)
    return style.framed(figure, "Four", legend=False).update_yaxes(title="share", col=1)


def beside() -> go.Figure:
    names, words = ["the first of two models", "second"], "98.7% (97.7 to 98.9)"
    figure = go.Figure(go.Bar(x=[1.0, 0.4], y=names, orientation="h"))
    text = {"mode": "text", "text": [words] * 2, "textposition": "middle right", "cliponaxis": False}
    figure.add_scatter(x=[1.01] * 2, y=names, **text).update_xaxes(range=[0, 1.1])
    return style.framed(figure, "Bars", legend=False)


def second_axis() -> go.Figure:
    figure = go.Figure([go.Scatter(y=[0, 1], name="share"), go.Bar(y=[100, 2000], yaxis="y2", name="added")])
    figure.update_layout(yaxis2={"overlaying": "y", "side": "right", "title": "digit products added"})
    return figure


@pytest.mark.browser
def test_nothing_is_cut_or_over_another_in_typical_figures() -> None:
    """Measured in a browser, which draws the files too."""
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 800, "height": 2000})
        page.set_content("<body style='margin:0'><div id='plot'></div></body>")
        page.add_script_tag(content=get_plotlyjs())
        for make in (bars, lines, heat, columns, beside, second_axis):
            for width in INCHES:
                made = json.loads(str(for_paper(make(), width=width).to_json()))
                assert page.evaluate(FAULTS, made) == [], f"{make.__name__}, {width}"
        # Beside one of the size of a screen, squeezed into a column, of which this says what is wrong.
        assert page.evaluate(FAULTS, json.loads(str(bars().update_layout(width=317, height=300).to_json())))


@pytest.mark.parametrize(("ending", "begins"), [(".pdf", b"%PDF"), (".svg", b"<svg"), (".png", b"\x89PNG")])
def test_a_path_is_written_as_its_ending_says(tmp_path: Path, ending: str, begins: bytes) -> None:
    pytest.importorskip("kaleido")
    path = tmp_path / f"figure{ending}"
    made = for_paper(bars(), path)
    assert path.read_bytes().startswith(begins) and made.layout.width == 317


def test_a_path_with_another_ending_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"a \.pdf, \.svg or \.png file, not '.*figure\.docx'"):
        for_paper(bars(), tmp_path / "figure.docx")


def test_a_long_title_is_folded_and_without_words_there_is_none() -> None:
    figure = go.Figure(layout={"title": {"text": "word " * 40, "subtitle": {"text": "more " * 60}}})
    made = for_paper(figure)
    text = made.layout.title.text
    assert text.count("<br>") >= 6 and text.count("word") == 40 and text.count("more") == 60
    assert made.layout.margin.t > for_paper(figure, width="page").layout.margin.t
    assert for_paper(figure, words=False).layout.title.text is None


@pytest.mark.parametrize("width", ["wide", 0.5, 30, ""])
def test_a_width_that_no_page_has(width: Any) -> None:
    with pytest.raises(ValueError, match="a figure's width is column, page or 1 to 20 inches"):
        for_paper(go.Figure(), width=width)


def test_lines_and_marks_are_thinner() -> None:
    figure = go.Figure()
    figure.add_scatter(x=[1, 2], y=[1, 2], line={"width": 3}, marker={"size": 10}, error_y={"array": [1, 1]})
    (trace,) = for_paper(figure).data
    assert trace.line.width < 3 and trace.marker.size < 10 and trace.error_y.thickness < 1
    (same,) = figure.data
    assert same.line.width == 3 and same.marker.size == 10


def test_columns_that_are_too_narrow_go_on_in_a_further_row() -> None:
    made, page = for_paper(columns()), for_paper(columns(), width="page")
    assert len({axis.domain for axis in made.select_yaxes()}) == 2 and made.layout.height > page.layout.height
    assert len({axis.domain for axis in page.select_yaxes()}) == 1
    assert made.layout.yaxis3.showticklabels and not page.layout.yaxis3.showticklabels


@pytest.mark.parametrize(("across", "kept"), [(4, True), (80, False)])
def test_cells_have_text_only_where_it_fits(across: int, kept: bool) -> None:
    text = [["100%<br>(12%)"] * across] * 4
    figure = go.Figure(go.Heatmap(z=[[0.5] * across] * 4, text=text, texttemplate="%{text}"))
    (heat,) = for_paper(style.framed(figure, "Cells", legend=False)).data
    assert bool(heat.texttemplate) == kept


def test_a_height_is_kept_if_what_is_in_it_fits() -> None:
    bar = go.Figure(go.Bar(y=[1, 2]))
    assert for_paper(bar, words=False, height=300).layout.height == pytest.approx(300, abs=1)
    assert for_paper(bar, words=False, height=20).layout.height > 85


def test_a_grid_with_empty_places_is_laid_out() -> None:
    figure = make_subplots(rows=2, cols=5)
    for row, column in ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4)):
        figure.add_scatter(y=[1, 2], row=row, col=column)
    made = for_paper(figure)
    used = [made.layout[f"yaxis{trace.yaxis[1:]}"].domain for trace in made.data]
    assert len(set(used)) == 4  # of three columns, two stand beside each other
