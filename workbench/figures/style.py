"""One look for every figure: palette, frame, and the words on the axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import unescape
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.colors import hex_to_rgb, sample_colorscale

# Okabe and Ito's colour-blind-safe palette, without the black and the yellow that vanish on one of the two themes.
BLUE, ORANGE, GREEN, PURPLE, VERMILLION, SKY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9"
TRUTH, CHANGED = ORANGE, PURPLE  # of the task's truth, and of an answer that an edit changed
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE)  # of runs, A and B first; the colour of truth comes last
GREY = "rgba(128,128,128,0.9)"
GRID = "rgba(128,128,128,0.25)"
DASHES = ("solid", "dash", "dot", "dashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "cross")

# Nothing is see-through, so that a heat map sits well on a light page and on a dark one.
SHADES = [[0.0, "rgba(86,180,233,0.04)"], [0.5, "rgba(30,146,205,0.55)"], [1.0, "rgba(0,114,178,1)"]]

DIVERGING = [[0.0, "rgba(213,94,0,1)"], [0.5, "rgba(128,128,128,0.06)"], [1.0, "rgba(0,114,178,1)"]]

PALE = [[0, "#EDF4FA"], [1, "#4FA3D8"]]  # opaque and light, so that dark text reads on any page

SEQUENCE = "Viridis"
DARKEST, LIGHTEST = 0.25, 0.88  # of the scale: its ends vanish on a dark page and on a light one


@cache
def in_order(n: int) -> tuple[str, ...]:
    """Colours for n things that are a sequence (layers, hops, lengths), from dark to light."""
    return tuple(sample_colorscale(SEQUENCE, list(np.linspace(DARKEST, LIGHTEST, n))))


def faint(colour: str, opacity: float = 0.15) -> str:
    """The same colour for an area: of `#rrggbb` or `rgb(...)`."""
    if colour.startswith("rgb"):
        return colour.replace("rgb(", "rgba(").replace(")", f", {opacity})")
    return "rgba({}, {}, {}, {})".format(*hex_to_rgb(colour), opacity)


HEIGHT = 420  # pixels of a figure
TOP, BOTTOM, LEGEND = 86, 64, 36  # above and below the plot, and more below for a legend
AXES = {"gridcolor": GRID, "zeroline": False, "linecolor": GRID}
AT_TOP = {"x": 0.0, "xref": "container", "xanchor": "left", "y": 1.0, "yref": "container", "yanchor": "top"}
TITLE = {**AT_TOP, "pad": {"t": 16, "l": 4}, "font": {"size": 17}}
IN_A_ROW = {**AT_TOP, "orientation": "h", "y": 0.0, "yanchor": "bottom"}  # a legend, at the bottom
SOFT = " <br>"  # between lines that a subtitle has only because it is long
LONGEST, LINE = 120, 16  # characters in a line of a subtitle, which half a page holds; and how tall it is


def in_one_line(title: str) -> str:
    """A framed figure's title or subtitle as plain text without breaks: its own lines are parts of a list."""
    return unescape(title.replace(SOFT, " ").replace("<br>", "; "))


def framed(
    figure: go.Figure, title: str, subtitle: str = "", height: int = HEIGHT, legend: bool = True, of: str = ""
) -> go.Figure:
    """The house frame: title and subtitle at the top, the legend in a row at the bottom, both clear of the plot.

    A long subtitle without lines of its own takes two, and the figure is as much taller; a blank before a break
    tells it from those of a subtitle's own lines (see `in_one_line`).

    Args:
        figure: what to frame.
        title, subtitle: its words.
        height: in pixels.
        legend: whether there is one.
        of: what tells the figure from others with its title (a run, a place); a report names its file by it.
    """
    kept_together = subtitle.replace(" %", "\u00a0%")  # a number and its sign stay in one line
    lines = [subtitle] if "<" in subtitle else [one.replace("\u00a0", " ") for one in wrap(kept_together, LONGEST)]
    more = LINE * max(0, len(lines) - 1)
    figure.update_layout(
        title={**TITLE, "text": title, "subtitle": {"text": SOFT.join(lines), "font": {"size": 12}}},
        height=height + more,
        margin={"l": 70, "r": 30, "t": TOP + more, "b": BOTTOM + LEGEND * legend},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=legend,
        legend=IN_A_ROW,
        hoverlabel={"namelength": -1},
        meta={"of": of} if of else None,
        overwrite=True,  # in a fifth of the time that plotly takes to look at what was there before
    )
    return figure.update_xaxes(**AXES).update_yaxes(**AXES)


def cells(scale: Any, units: str, *, share: bool = False, gap: int = 0, **bar: Any) -> dict[str, Any]:
    """The look of a heat map: its colours and their bar; those of a share from 0 to 1, pixels between the cells."""
    colorbar = {"title": {"text": units, "side": "right"}, "thickness": 12, "outlinewidth": 0, **bar}
    whole, apart = {"zmin": 0, "zmax": 1} if share else {}, {"xgap": gap, "ygap": gap} if gap else {}
    return {"colorscale": scale, "colorbar": colorbar, **whole, **apart}


def literal(words: Any) -> Any:
    """A word, or words in lists or arrays, for Plotly, which would take a token such as `<s>` for markup.

    `in_one_line` reads them back.
    """
    if isinstance(words, str):
        return words.replace("&", "&amp;").replace("<", "&lt;")
    return np.array(literal(words.tolist())) if isinstance(words, np.ndarray) else [*map(literal, words)]


def ordered_union(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """Every entry once, numbers in order of size, names in the order of the longest list that has them."""
    entries = list(dict.fromkeys(entry for entries in sorted(lists, key=len, reverse=True) for entry in entries))
    return sorted(entries) if all(isinstance(entry, int | float) for entry in entries) else entries


def thinned(labels: Sequence[str], most: int) -> dict[str, list[Any]]:
    """Tick positions and labels, at most `most` of them, evenly spaced."""
    step = -(-len(labels) // most)
    kept = range(0, len(labels), step)
    return {"tickvals": list(kept), "ticktext": [labels[i] for i in kept]}
