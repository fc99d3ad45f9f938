"""A figure at the size at which it is printed: one column or the page of a two-column paper.

Plotly itself makes room for ticks, titles, legends and colour bars, by the fonts of the machine that draws. What it
does not do is done here, by a guess at how wide words are: it breaks no lines, and leaves nothing out.
"""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from workbench.figures import style
from workbench.figures.pictures import write_pictures
from workbench.figures.print_layout import (
    LARGE,
    LINE,
    SMALL,
    TALLEST,
    Plot,
    fold,
    height_of,
    lay_out,
    left_of,
    plots_of,
    right_of,
    width_of,
)

INCHES = {"column": 3.3, "page": 6.9}
PIXELS_PER_INCH = 96  # of SVG, PDF and Plotly: what is laid out in pixels is printed at this size
SHRUNK = SMALL / 12  # pixels of print for one on the screen, where ticks have 12
KEY = 46  # pixels of a legend's entry beside its words
SHARP = 4  # pixels of a PNG for each of the layout's

_FONT = {"size": SMALL, "family": "Arial, Helvetica, Liberation Sans, sans-serif"}
_WORDS = {"font": _FONT | {"size": LARGE}}
_AXIS = {"automargin": True, "tickfont": _FONT, "title": _WORDS | {"standoff": 4}, "ticklen": 2}
_SCALE = {"thickness": 8, "xpad": 5, "ypad": 0, "outlinewidth": 0, "tickfont": _FONT, "title": {"font": _FONT}}
_TOP = {"x": 0, "xref": "container", "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top"}
_BOTTOM = {"orientation": "h", "x": 0, "xref": "container", "y": 0, "yref": "container", "yanchor": "bottom"}
PRINT = {
    "template": "plotly_white",
    "font": _FONT,
    "title": _WORDS | _TOP | {"pad": {"t": 10, "l": 4}},
    "legend": _BOTTOM | {"font": _FONT, "itemwidth": 30, "maxheight": 1, "tracegroupgap": 0, "traceorder": "normal"},
    "uniformtext": {"minsize": SMALL, "mode": "hide"},
    "margin": {"l": 6, "r": 6, "b": 6, "pad": 0},
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
}


def for_paper(
    figure: go.Figure,
    path: str | Path | None = None,
    *,
    width: str | float = "column",
    words: bool = True,
    height: float | None = None,
) -> go.Figure:
    """A copy of a figure for print, with text of 7 and 8 points; written too, if there is a path.

    Long words are broken into lines, columns of plots that would be too narrow go on in further rows, and text inside
    plots for which there is no room is left out.

    Args:
        figure: any figure of this package, or of yours.
        path: a file to write, whose ending says as what: `.pdf`, `.svg`, `.png`.
        width: `column` (3.3 inches), `page` (6.9 inches), or inches.
        words: whether title and subtitle stay; without them the paper's own caption says it.
        height: pixels that it should be high; it is higher if what is in it takes more.

    Raises:
        ValueError: if the width is none such, or not 1 to 20 inches, the ending another, or no browser draws the file.
    """
    made, wide = copy.deepcopy(figure), _pixels(width)
    if path is not None and Path(path).suffix not in (".pdf", ".svg", ".png"):
        raise ValueError(f"a figure for print is written to a .pdf, .svg or .png file, not {str(path)!r}")
    plots = plots_of(made)
    tall = min(_on_screen(made, plots), TALLEST * wide)
    head = _head(made, wide) if words else []
    made.update_layout(width=wide, title=None, legend=None, margin=None)
    made.update_layout(PRINT, title_text="<br>".join(head) or None)
    _shrink(made)
    left = max((left_of(plot, tall, wide) for plot in plots if not plot.column), default=0.0)
    top, legend = 14 + LINE * len(head) if head else 8.0, _legend(made, wide - left - right_of(made))
    room = height and height - top - legend
    above, body = lay_out(made, plots, (wide, tall), room) if plots else (0.0, tall)  # a pie has none
    made.update_layout(height=round(top + body + legend), margin_t=top + above)
    if path is not None:
        write_pictures([made], [Path(path)], scale=SHARP if Path(path).suffix == ".png" else 1)
    return made


def _pixels(width: str | float) -> int:
    """The pixels of a width. Raises ValueError if it is no such word, or not within 1 to 20 inches."""
    inches = INCHES.get(width, 0.0) if isinstance(width, str) else float(width)
    if not 1 <= inches <= 20:
        raise ValueError(f"a figure's width is {', '.join(INCHES)} or 1 to 20 inches, not {width!r}")
    return round(inches * PIXELS_PER_INCH)


def _head(figure: go.Figure, wide: float) -> list[str]:
    """The lines of title and subtitle."""
    title = figure.layout.title
    lines = fold(title.text, wide - 10, LARGE).split("<br>") if title.text else []
    small = fold(title.subtitle.text.replace(style.SOFT, " "), wide - 10).split("<br>") if title.subtitle.text else []
    return [*lines, *(f"<span style='font-size:{SMALL:.1f}px'>{line}</span>" for line in small)]


def _shrink(figure: go.Figure) -> None:
    """Axes, annotations and colour bars at the size of print, lines and marks thinner than on the screen."""
    figure.update_xaxes(_AXIS, autotickangles=[0, 90]).update_yaxes(_AXIS)
    figure.update_annotations(font=_FONT)
    figure.update_coloraxes(colorbar=_SCALE)
    for trace in figure.data:
        marker: Any = getattr(trace, "marker", None)
        lines: list[Any] = [getattr(trace, "line", None), getattr(marker, "line", None)]
        for line in lines:
            if getattr(line, "width", None):
                line.width *= SHRUNK
        if isinstance(getattr(marker, "size", None), int | float):
            marker.size *= SHRUNK
        if "colorbar" in trace:
            trace.colorbar.update(_SCALE)
        if "textfont" in trace:
            trace.textfont.update(_FONT)
        for error in (trace[name] for name in ("error_x", "error_y") if name in trace):
            if error.array is not None:
                error.update(thickness=0.8, width=2)


def _legend(figure: go.Figure, wide: float) -> float:
    """Break the names of a legend into lines; returns about how tall it is.

    Args:
        figure: with the legend.
        wide: of its plots, for which Plotly lays a legend out.
    """
    shown = [trace for trace in figure.data if trace.showlegend is not False and trace.name]
    if figure.layout.showlegend is False or len(shown) < 1 + (figure.layout.showlegend is None):
        return 0.0
    longest = min(max(width_of(trace.name) for trace in shown), wide / 2 - KEY)
    columns = min(len(shown), int(wide / (KEY + longest)))
    room = math.floor(wide / columns) - KEY
    figure.layout.legend.entrywidth = room  # else Plotly has a column less where its own guess is wider
    for trace in shown:
        trace.update(name=fold(trace.name, room), legend=None, legendgroup=None, legendrank=1000)
    rows = [shown[start : start + columns] for start in range(0, len(shown), columns)]
    return 8 + sum(max(19.0, *(height_of(trace.name) + 4 for trace in row)) for row in rows)


def _on_screen(figure: go.Figure, plots: list[Plot]) -> float:
    """The height of a row of plots on the screen, in pixels of print."""
    layout = figure.layout
    top, bottom = layout.margin.t or style.TOP, layout.margin.b or style.BOTTOM
    return (
        ((layout.height or style.HEIGHT) - top - bottom) * SHRUNK / (1 + max((plot.row for plot in plots), default=0))
    )
