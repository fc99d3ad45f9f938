"""Words inside plots for print: in cells, at bars, beside bars and at peaks, each only where it fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from workbench.figures.for_paper.panels import Panel
from workbench.figures.for_paper.text import SMALL, balanced, font, height, lines, numbers, values, width
from workbench.figures.for_paper.ticks import ROW, extent, labels_of

TALLEST = 1.4  # of a plot that grows for the words in it, in the figure's width
BARS = 0.8  # share of a category that its bars take
PLACES = ("top center", "middle right", "middle left", "top right", "top left", "bottom center")

Box = tuple[float, float, float, float]  # left, right, bottom, top


def lay_out_inside(figure: go.Figure, panels: Sequence[Panel], wide: Sequence[float], tall: float) -> None:
    """Fit the words inside of plots, given the width of each column and the height of a row.

    A plot's `least` height grows where that makes room.
    """
    for panel in panels:
        across = wide[panel.column]
        for trace in panel.traces:
            if trace.type == "heatmap" and trace.texttemplate:
                _cells(panel, trace, across, figure.layout.width)
            elif trace.type == "bar" and trace.text is not None:
                _on_bars(panel, trace, across)
            elif trace.type == "scatter" and trace.mode == "text":
                _beside(panel, trace, across)
        _peaks(panel, across, max(tall, panel.least))
    _notes(figure, panels, tall)


def _cells(panel: Panel, trace: Any, wide: float, page: float) -> None:
    """Text in the cells of a heat map: the plot grows for its lines; it is left out where a cell is too narrow."""
    rows = values(trace.z)
    texts = [str(text) for row in values(trace.text) for text in row]
    if not texts or not rows:
        return
    cell = wide / len(rows[0])
    needed = (max(map(height, texts)) + 2) * len(rows)
    if max(map(width, texts)) + 1 > cell or needed > TALLEST * page:
        trace.update(texttemplate="", text=None)
        return
    trace.textfont.update(font(SMALL))
    panel.least = max(panel.least, needed)


def _on_bars(panel: Panel, trace: Any, wide: float) -> None:
    """Text above upright bars: level, else turned, else left out."""
    trace.update(constraintext="none", textfont=font(SMALL))
    if trace.orientation == "h":
        return
    texts = [trace.text] if isinstance(trace.text, str) else [str(text) for text in values(trace.text)]
    low, high = extent(panel.x, panel.traces, "x")
    places = len(labels_of(panel.x, panel.traces, "x")) or round(high - low)
    bars = sum(other.type == "bar" for other in panel.traces)
    bar = BARS * wide / max(places, 1) / max(bars, 1)
    longest = max(map(width, texts), default=0.0)
    if longest + 2 <= bar:
        return
    if bar < ROW:
        trace.update(text=None, texttemplate="", textposition="none")
        return
    trace.textangle = -90
    low, high = extent(panel.y, panel.traces, "y")
    low, high = min(low, high), max(numbers(values(trace.y)), default=high)
    if panel.y.range is None and trace.textposition == "outside":
        room = max(0.1, 1 - (longest + 8) / max(panel.least, 110.0))
        panel.y.range = [min(0.0, low) if low < -0.06 * high else 0.0, high / room]


def _beside(panel: Panel, trace: Any, wide: float) -> None:
    """Text to the right of bars: folded if long, and the axis as long as it takes."""
    trace.textfont.update(font(SMALL))
    texts = [str(text) for text in values(trace.text)]
    if not texts or trace.textposition != "middle right":
        return
    if max(map(width, texts)) > 0.35 * wide:
        texts = [balanced(text, 0.35 * wide) for text in texts]
        trace.text = texts
        panel.least = max(panel.least, len(texts) * (max(map(lines, texts)) * ROW + 6))
    longest = max(map(width, texts)) + 6
    low, _ = extent(panel.x, panel.traces, "x")
    ends = numbers(values(trace.x))
    if panel.x.range is not None and ends and longest < 0.8 * wide:
        panel.x.range = [low, low + (max(ends) - low) * wide / (wide - longest)]


def _peaks(panel: Panel, wide: float, tall: float) -> None:
    """The words at points: each where no other is, the highest first; one without a place is left out."""
    named = [trace for trace in panel.traces if trace.type == "scatter" and trace.mode == "markers+text"]
    if not named or panel.y.type == "log" or panel.x.type == "category":
        return
    (left, right), (low, high) = extent(panel.x, panel.traces, "x"), extent(panel.y, panel.traces, "y")
    room = (high - low) * 1.5 * ROW / tall
    panel.y.range = [low, high + room]
    across, up = wide / (right - left), tall / (high + room - low)
    points = {
        id(trace): [((x - left) * across, (y - low) * up) for x, y in zip(*_numbers(trace), strict=False)]
        for trace in named
    }
    taken: list[Box] = [(x - 3, x + 3, 0.0, y + 3) for each in points.values() for x, y in each]
    for trace in sorted(named, key=lambda trace: -max(numbers(values(trace.y)), default=0.0)):
        texts = [str(text).replace("\u2009", "") for text in values(trace.text)]
        places = [_free(text, at, taken, wide, tall) for text, at in zip(texts, points[id(trace)], strict=False)]
        trace.text = [text if place else "" for text, place in zip(texts, places, strict=False)]
        trace.textposition = [place or PLACES[0] for place in places]
        trace.textfont.update(font(SMALL))


def _numbers(trace: Any) -> tuple[list[float], list[float]]:
    return numbers(values(trace.x)), numbers(values(trace.y))


def _free(text: str, at: tuple[float, float], taken: list[Box], wide: float, tall: float) -> str | None:
    """The first place beside a point where nothing is, which is taken then."""
    own = width(text)
    x, y = at
    for place in PLACES:
        down, side = place.split()
        start = {"center": x - own / 2, "right": x + 4, "left": x - 4 - own}[side]
        foot = {"top": y + 4, "middle": y - ROW / 2, "bottom": y - 4 - ROW}[down]
        box = (start, start + own, foot, foot + ROW)
        inside = box[0] >= 0 and box[1] <= wide and box[3] <= tall + 4
        if inside and not any(_meet(box, other) for other in taken):
            taken.append(box)
            return place
    return None


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]


def _notes(figure: go.Figure, panels: Sequence[Panel], tall: float) -> None:
    """Names beside bars: the plot grows until a bar is as thick as a name, or the names are left out."""
    for panel in panels:
        own = [note for note in figure.layout.annotations if _is_beside(note, panel, panels)]
        bars = [trace for trace in panel.traces if trace.type == "bar" and trace.orientation == "h"]
        if not own or not bars:
            continue
        places = len({place for trace in bars for place in values(trace.y)})
        groups = len({trace.offsetgroup or id(trace) for trace in bars})
        needed = places * groups * ROW / BARS
        if needed > TALLEST * figure.layout.width:
            for note in own:
                note.visible = False
            continue
        panel.least = max(panel.least, needed)
        grown = BARS * max(tall, panel.least) / places / groups / _thickness(own, groups)
        for note in own:
            note.yshift = (note.yshift or 0.0) * grown


def _thickness(notes: Sequence[Any], groups: int) -> float:
    """The thickness of a bar on the screen, by the least distance of the names from the middle."""
    shifts = sorted({abs(note.yshift) for note in notes if note.yshift})
    return 2 * shifts[0] if shifts and groups % 2 == 0 else shifts[0] if shifts else 1.0


def _is_beside(note: Any, panel: Panel, panels: Sequence[Panel]) -> bool:
    """Whether an annotation stands at a place of this plot's data, without an arrow."""
    if note.showarrow is not False or note.xanchor != "left" or "paper" in (note.xref, note.yref):
        return False
    return len(panels) == 1 or note.yref == panel.y.plotly_name.replace("axis", "")
