"""A figure at the size at which it is printed: one column or the page of a two-column paper."""

from __future__ import annotations

import copy
from typing import Any

import plotly.graph_objects as go

from workbench.figures import style
from workbench.figures.for_paper.inside import lay_out_inside
from workbench.figures.for_paper.legend import lay_out_legend, place_legend
from workbench.figures.for_paper.panels import (
    Panel,
    fold_headings,
    panels_of,
    place,
    rows_of,
    widths,
    wrap,
    write_titles,
)
from workbench.figures.for_paper.scales import lay_out_scales
from workbench.figures.for_paper.text import LARGE, LINE, PIXELS_PER_INCH, SMALL, fold, font, pixels
from workbench.figures.for_paper.ticks import extent, lay_out_right, lay_out_x, lay_out_y

__all__ = ["INCHES", "LARGE", "PIXELS_PER_INCH", "SMALL", "for_paper"]

INCHES = {"column": 3.3, "page": 6.9}
TALLEST, LEAST = 0.8, 110.0  # plot height over figure width, and in pixels
LEAST_GIVEN = 85.0  # pixels of a plot where the figure's height is given
THINNER = 0.6  # lines and marks, beside those on a screen
TITLE_PAD = 12  # pixels above the title, with which its first line is not cut
EDGE = 6  # pixels between what is drawn and the figure's edge


def for_paper(
    figure: go.Figure, width: str | float = "column", *, words: bool = True, height: float | None = None
) -> go.Figure:
    """A copy of a figure for print: its size, its text of 7 and 8 points, nothing of it cut or over one another.

    Written as PDF or SVG without scaling, `figure.write_image("figure.pdf")`, it has this very width. Long words are
    folded, ticks that have no room are turned or thinned out, and columns of plots go on in further rows; text inside
    plots for which there is none is left out.

    Args:
        figure: any figure of this package, or of yours.
        width: `column` (3.3 inches), `page` (6.9 inches), or inches.
        words: whether title and subtitle stay, folded to the width; without them the paper's own caption says it.
        height: pixels that it should be high; it is higher if what is in it takes more.

    Raises:
        ValueError: if the width is no such word, or not between 1 and 20 inches.
    """
    inches = INCHES.get(width, 0.0) if isinstance(width, str) else float(width)
    if not 1 <= inches <= 20:
        raise ValueError(f"a figure's width is {', '.join(INCHES)} or 1 to 20 inches, not {width!r}")
    page = round(inches * PIXELS_PER_INCH)
    made = copy.deepcopy(figure)
    _make_small(made)
    made.layout.width = page
    head = _words(made, page) if words else []
    top = round(sum(LINE * pixels(points) for _, points in head)) + (TITLE_PAD + 6 if head else 8)
    legend = lay_out_legend(made, page)
    left, right, above, area, below = _lay_out_plots(made, page, height and height - top - legend)
    margin = {"l": left, "r": right, "t": top + above, "b": below + legend}
    total = round(margin["t"] + area + margin["b"])
    made.update_layout(height=total, margin=margin | {"pad": 0, "autoexpand": False}, title=_title(head))
    made.update_layout(template="plotly_white", paper_bgcolor="white", plot_bgcolor="white")
    place_legend(made, legend, total)
    return made


def _lay_out_plots(figure: go.Figure, page: int, room: float | None) -> tuple[float, float, float, float, float]:
    """Lay the plots out; returns the pixels to the left, to the right, above, of and below them."""
    tall = _plot_height(figure, page)
    panels = panels_of(figure)
    if not panels:
        return EDGE, EDGE, 0.0, room or tall, EDGE
    right = EDGE + lay_out_scales(figure, tall) + lay_out_right(figure, tall)
    for panel in panels:
        lay_out_y(panel, tall, page)
    if wrap(panels, page - EDGE - right):
        for panel in panels:
            lay_out_y(panel, tall, page)
    columns = widths(panels, page - EDGE - right)
    wide = [end - start for start, end in columns]
    reach = max(lay_out_x(panel, wide[panel.column]) for panel in panels)
    if reach > right:
        right = reach
        columns = widths(panels, page - EDGE - right)
        wide = [end - start for start, end in columns]
    fold_headings(panels, min(wide))
    lay_out_inside(figure, panels, wide, tall)
    heights = _heights(panels, wide, tall)
    above, area, below = place(figure, panels, columns, heights)
    if room is not None:
        spare = (room - above - area - below) / len(heights)
        least = [_least(panels, row, LEAST_GIVEN) for row in range(len(heights))]
        heights = [max(low, high + spare) for low, high in zip(least, heights, strict=True)]
        above, area, below = place(figure, panels, columns, heights)
    write_titles(figure, panels)
    return EDGE + columns[0][0], page - EDGE - columns[-1][1], above, area, below


def _heights(panels: list[Panel], wide: list[float], tall: float) -> list[float]:
    """The height of each row's plots: their share, or what is in them takes, or what a fixed shape asks for."""
    rows = range(rows_of(panels))
    weights = [max(panel.weight[0] for panel in panels if panel.row == row) for row in rows]
    mean = sum(weights) / len(weights)
    heights = [max(tall * weight / mean, _least(panels, row, 0.0)) for row, weight in zip(rows, weights, strict=True)]
    for panel in panels:
        if panel.y.scaleanchor:
            (left, right), (low, high) = extent(panel.x, panel.traces, "x"), extent(panel.y, panel.traces, "y")
            heights[panel.row] = wide[panel.column] * (high - low) / (right - left)
    return heights


def _least(panels: list[Panel], row: int, least: float) -> float:
    """The height that what is in a row of plots takes."""
    return max([least, *(panel.least for panel in panels if panel.row == row)])


def _make_small(figure: go.Figure) -> None:
    """Text of the size of print at axes and annotations, and thinner lines."""
    figure.update_layout(font=font(SMALL))
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(tickfont=font(SMALL), title={"font": font(LARGE), "standoff": 4}, ticklen=2)
    figure.update_annotations(font=font(SMALL))
    for trace in figure.data:
        _thin(trace)


def _words(figure: go.Figure, width: int) -> list[tuple[str, int]]:
    """The lines of title and subtitle, folded to a width, each with its size in points."""
    title = figure.layout.title
    both = ((title.text, LARGE), (title.subtitle.text, SMALL))
    return [(line, points) for text, points in both if text for line in fold(text, width - 8, points).split("<br>")]


def _title(head: list[tuple[str, int]]) -> dict[str, Any]:
    """The folded words as Plotly's title, over the whole width."""
    first = "<br>".join(line for line, points in head if points == LARGE)
    second = "<br>".join(line for line, points in head if points == SMALL)
    text = first + (f"<br><span style='font-size:{pixels(SMALL):.1f}px'>{second}</span>" if second else "")
    return {
        "text": text or None,
        "subtitle": {"text": None, "font": font(SMALL)},
        "font": font(LARGE),
        "x": 0.0,
        "xref": "container",
        "xanchor": "left",
        "y": 1.0,
        "yref": "container",
        "yanchor": "top",
        "pad": {"t": TITLE_PAD, "l": 4},
    }


def _plot_height(figure: go.Figure, width: int) -> float:
    """Pixels of a row's plots: in the screen's proportions, but no taller than most of the width."""
    drawn = figure.layout.height or style.HEIGHT
    margin = figure.layout.margin
    own = drawn - (margin.t or style.TOP) - (margin.b or style.BOTTOM)
    rows = len({axis.domain for axis in figure.select_yaxes() if axis.domain}) or 1
    return max(LEAST, min(own * width / 760 / rows, TALLEST * width))


def _thin(trace: Any) -> None:
    """Thinner lines and smaller marks."""
    marker: Any = getattr(trace, "marker", None)
    for holder in (trace, marker):
        line: Any = getattr(holder, "line", None)
        if getattr(line, "width", None):
            line.width *= THINNER
    if isinstance(getattr(marker, "size", None), int | float):
        trace.update(marker_size=marker.size * THINNER)
    for name in ("error_x", "error_y"):
        bars: Any = getattr(trace, name, None)
        if getattr(bars, "array", None) is not None:
            bars.thickness, bars.width = 0.8, 2
