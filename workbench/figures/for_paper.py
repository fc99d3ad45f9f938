"""A figure at the size at which it is printed: one column or the page of a two-column paper."""

from __future__ import annotations

import copy
import textwrap
from typing import Any

import plotly.graph_objects as go

from workbench.figures import style

INCHES = {"column": 3.3, "page": 6.9}
PIXELS_PER_INCH = 96  # of SVG, PDF and Plotly: what is laid out in pixels is printed at this size
SMALL, LARGE = 7, 8  # points: of ticks, legend and subtitle; of the title and the axes' titles
LETTER = 0.52  # mean width of a letter, in its height
LINE = 1.3  # distance of lines, in their height
TALLEST, LEAST = 0.8, 110.0  # plot height over figure width, and in pixels
THINNER = 0.6  # lines and marks, beside those on a screen
KEY = 42  # pixels of a legend's entry beside its words
TITLE_PAD = 12  # pixels above the title, with which its first line is not cut
AXIS = 34  # pixels of an axis with its ticks and title


def for_paper(figure: go.Figure, width: str | float = "column", *, words: bool = True) -> go.Figure:
    """A copy of a figure for print: its size, its text of 7 and 8 points, and margins that hold all of it.

    Written as PDF or SVG without scaling, `figure.write_image("figure.pdf")`, it has this very width.

    Args:
        figure: any figure of this package, or of yours.
        width: `column` (3.3 inches), `page` (6.9 inches), or inches.
        words: whether title and subtitle stay, folded to the width; without them the paper's own caption says it.

    Raises:
        ValueError: if the width is no such word, or not between 1 and 20 inches.
    """
    inches = INCHES.get(width, 0.0) if isinstance(width, str) else float(width)
    if not 1 <= inches <= 20:
        raise ValueError(f"a figure's width is {', '.join(INCHES)} or 1 to 20 inches, not {width!r}")
    pixels = round(inches * PIXELS_PER_INCH)
    made = copy.deepcopy(figure)
    head = _words(made, pixels) if words else []
    top = round(sum(LINE * _pixels(points) for _, points in head)) + (TITLE_PAD + 6 if head else 8)
    plot_width = pixels - 2 * AXIS
    in_a_row, rows = _legend(made, plot_width)
    bottom = round(rows * 1.6 * _pixels(SMALL)) + (8 if rows else 0)
    if made.layout.annotations and any(_is_heading(one) for one in made.layout.annotations):
        top += 14
    height = _plot_height(made, pixels)
    made.update_layout(
        template="plotly_white",
        width=pixels,
        height=round(top + height + AXIS + bottom),
        margin={"l": AXIS, "r": 8, "t": top, "b": AXIS + bottom, "pad": 0},
        font=_size(SMALL),
        title=_title(head),
        paper_bgcolor="white",
        plot_bgcolor="white",
        legend={"font": _size(SMALL), "tracegroupgap": 0, **_AT_THE_BOTTOM},
    )
    made.update_layout(legend={"itemwidth": 30, "entrywidth": 0.98 / in_a_row, "entrywidthmode": "fraction"})
    added = _fold_axes(made, height, plot_width) + _below(made, plot_width)
    made.update_layout(height=made.layout.height + added, margin={"b": made.layout.margin.b + added})
    _make_small(made)
    return made


def _make_small(figure: go.Figure) -> None:
    """Text of the size of print at axes, annotations and colour bars, and thinner lines."""
    small = _size(SMALL)
    for axes in (figure.update_xaxes, figure.update_yaxes):
        axes(automargin=True, tickfont=small, title={"font": _size(LARGE), "standoff": 4}, ticklen=2)
    figure.update_annotations(font=small)
    figure.update_coloraxes(colorbar={"thickness": 8, "tickfont": small, "title": {"font": small}})
    for trace in figure.data:
        _thin(trace)


def _size(points: float) -> dict[str, float]:
    return {"size": _pixels(points)}


def _pixels(points: float) -> float:
    return points * PIXELS_PER_INCH / 72


def _words(figure: go.Figure, width: int) -> list[tuple[str, int]]:
    """The lines of title and subtitle, folded to a width, each with its size in points."""
    title = figure.layout.title
    lines = []
    for text, points in ((title.text, LARGE), (title.subtitle.text, SMALL)):
        letters = int((width - 8) / (LETTER * _pixels(points)))
        for part in (text or "").split("<br>"):
            lines += [(line, points) for line in textwrap.wrap(part, letters)]
    return lines


_AT_THE_BOTTOM = {"x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"}


def _fold_axes(figure: go.Figure, height: float, width: float) -> int:
    """Fold the titles of axes that are longer than the axis; returns the pixels that this adds below."""
    rows, columns = _count(figure.select_yaxes()), _count(figure.select_xaxes())
    for axes, length in ((figure.select_yaxes(), height / rows), (figure.select_xaxes(), width / columns)):
        letters = max(8, int(length / (LETTER * _pixels(LARGE))))
        for axis in axes:
            if axis.title.text:
                axis.title.text = "<br>".join(textwrap.wrap(axis.title.text, letters))
    lines = [axis.title.text.count("<br>") for axis in figure.select_xaxes() if axis.title.text]
    return round(max(lines, default=0) * LINE * _pixels(LARGE))


def _count(axes: Any) -> int:
    """How many places axes have beside or above each other."""
    return len({axis.domain for axis in axes if axis.domain}) or 1


def _title(head: list[tuple[str, int]]) -> dict[str, Any]:
    """The folded words as Plotly's title, over the whole width."""
    first = "<br>".join(line for line, points in head if points == LARGE)
    second = "<br>".join(line for line, points in head if points == SMALL)
    text = first + (f"<br><span style='font-size:{_pixels(SMALL):.1f}px'>{second}</span>" if second else "")
    return {
        "text": text or None,
        "subtitle": {"text": None, "font": {"size": _pixels(SMALL)}},
        "font": {"size": _pixels(LARGE)},
        "x": 0.0,
        "xref": "container",
        "xanchor": "left",
        "y": 1.0,
        "yref": "container",
        "yanchor": "top",
        "pad": {"t": TITLE_PAD, "l": 4},
    }


def _legend(figure: go.Figure, width: float) -> tuple[int, int]:
    """How many entries of the legend stand in a row of this width, and in how many rows; no rows without a legend."""
    shown = [trace.name for trace in figure.data if trace.showlegend is not False and trace.name]
    wanted = figure.layout.showlegend
    if wanted is False or (wanted is None and len(shown) < 2) or not shown:
        return 1, 0
    in_a_row = max(1, int(width / (KEY + max(map(len, shown)) * LETTER * _pixels(SMALL))))
    return in_a_row, -(-len(shown) // in_a_row)


def _below(figure: go.Figure, width: float) -> int:
    """Pixels that long labels of categories take below the axis, where they stand aslant."""
    words = [str(x) for trace in figure.data if trace.x is not None for x in trace.x if isinstance(x, str)]
    if not words:
        return 0
    longest = max(map(len, words)) * LETTER * _pixels(SMALL)
    return round(0.45 * longest) if longest > 1.4 * width / len(set(words)) else 0


def _is_heading(annotation: Any) -> bool:
    """Whether an annotation stands above a plot, as the titles of subplots do."""
    return annotation.yref == "paper" and annotation.y is not None and annotation.y >= 0.99


def _plot_height(figure: go.Figure, width: int) -> float:
    """Pixels of the plots: in the proportions of the screen, but no taller than most of the width for a single one."""
    drawn = figure.layout.height or style.HEIGHT
    margin = figure.layout.margin
    own = drawn - (margin.t or style.TOP) - (margin.b or style.BOTTOM)
    rows = _count(figure.select_yaxes())
    return max(LEAST * rows, min(own * width / 760, TALLEST * width * rows))


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
    bar = getattr(trace, "colorbar", None)
    if bar is not None:
        bar.update(thickness=8, tickfont={"size": _pixels(SMALL)}, title={"font": {"size": _pixels(SMALL)}})
