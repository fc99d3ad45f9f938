"""Ticks and titles of axes for print: folded, turned or left out, so that no two of them overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go

from workbench.figures.for_paper.panels import GAP, Panel
from workbench.figures.for_paper.text import (
    LARGE,
    LINE,
    SMALL,
    balanced,
    fold_to_lines,
    font,
    height,
    lines,
    longest_word,
    numbers,
    pixels,
    values,
    width,
)

ROW = LINE * pixels(SMALL)  # pixels of a line of a tick's label
BESIDE = 5  # pixels between an axis and its labels
SPACE = 5  # pixels between two labels
MOST_WORDS = 20  # labels of an axis, above which some are left out rather than the figure grown
LONGEST = 76  # pixels of a label that is turned

Label = tuple[Any, str]


def labels_of(axis: Any, traces: Sequence[Any], letter: str) -> list[Label]:
    """The words at an axis, each with its place; none where it has numbers."""
    if axis.ticktext is not None:
        return list(zip(values(axis.tickvals), map(str, axis.ticktext), strict=False))
    data = [value for trace in traces for value in _along(trace, letter)]
    if axis.type == "category" or any(isinstance(value, str) for value in data):
        return [(value, str(value)) for value in dict.fromkeys(data)]
    return []


def _along(trace: Any, letter: str) -> list[Any]:
    """A trace's values along an axis."""
    found = values(getattr(trace, letter, None))
    return [] if found and hasattr(found[0], "__len__") and not isinstance(found[0], str) else found


def extent(axis: Any, traces: Sequence[Any], letter: str) -> tuple[float, float]:
    """The least and largest number along an axis: its range, or that of its data."""
    if axis.range is not None and None not in axis.range:
        low, high = sorted(map(float, axis.range))
        return low, high
    found = [number for trace in traces for number in _reached(trace, letter)]
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    room = 0.055 * ((high - low) or 1.0)
    foot = low >= 0 and (axis.rangemode == "tozero" or any(_stands(trace, letter) for trace in traces))
    return (0.0 if foot else low - room), high + room


def _reached(trace: Any, letter: str) -> list[float]:
    """The numbers that a trace reaches: its values, the ends of their intervals, and the foot of bars."""
    along = numbers(_along(trace, letter))
    error: Any = getattr(trace, f"error_{letter}", None)
    above = numbers(values(getattr(error, "array", None)))
    below = numbers(values(getattr(error, "arrayminus", None))) or above
    found = [x + dx for x, dx in zip(along, above, strict=False)]
    found += [x - dx for x, dx in zip(along, below, strict=False)]
    heat = trace.type == "heatmap" and not along and trace.z is not None
    if heat:
        rows = values(trace.z)
        along = [-0.5, (len(rows) if letter == "y" else len(rows[0])) - 0.5]
    return along + found + [0.0] * _stands(trace, letter)


def _stands(trace: Any, letter: str) -> bool:
    """Whether a trace is bars which begin at the zero of an axis."""
    return trace.type == "bar" and (trace.orientation == "h") == (letter == "x")


def steps(low: float, high: float, most: int) -> list[float]:
    """The numbers at which Plotly sets at most so many ticks: in steps of 1, 2 or 5 of a power of ten."""
    rough = (high - low) / max(most, 1)
    if not rough > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough * 0.999)
    return [step * n for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def in_words(axis: Any, ticks: Sequence[float]) -> list[str]:
    """Numbers as an axis writes them."""
    if getattr(axis, "type", None) == "log":
        return ["10<sup>−3</sup>"]
    form = axis.tickformat or ""
    if form.endswith("%"):
        return [f"{tick:{form if form.startswith('.') else '.0%'}}" for tick in ticks]
    if form.startswith("."):
        return [f"{tick:{form}}" for tick in ticks]
    gap = min((b - a for a, b in pairwise(ticks)), default=1.0)
    places = max(0, -math.floor(math.log10(gap) + 1e-9)) if gap > 0 else 0
    return [f"{tick:.{places}f}".replace("-", "−") for tick in ticks]


def lay_out_y(panel: Panel, tall: float, page: float) -> None:
    """Fit what stands to the left of a plot of some height; sets its `left` and `least`."""
    axis = panel.y
    axis.update(automargin=True, tickangle=0 if axis.tickangle is None else axis.tickangle)
    wide = 0.0
    if axis.showticklabels is not False and axis.visible is not False:
        labels = labels_of(axis, panel.traces, "y")
        wide = _words_at_y(panel, labels, tall, page) if labels else _numbers_at_y(panel, tall)
    panel.left = BESIDE + wide + (GAP / 2 if panel.column else 0) if wide else GAP
    if axis.title.text:
        axis.title.text = balanced(_bare(axis.title.text), tall, LARGE)
        panel.left += 5 + height(axis.title.text, LARGE)


def lay_out_right(figure: go.Figure, tall: float) -> float:
    """Fit a second vertical axis at the right of plots of some height; returns the pixels that it takes."""
    taken = 0.0
    for axis in figure.select_yaxes():
        if not axis.overlaying:
            continue
        name = axis.plotly_name.replace("axis", "")
        own = Panel(None, axis, [trace for trace in figure.data if getattr(trace, "yaxis", None) == name])
        taken = BESIDE + _numbers_at_y(own, tall)
        if axis.title.text:
            text = balanced(_bare(axis.title.text), tall, LARGE)
            at = {"x": 1, "y": 0.5, "xref": "paper", "yref": "paper", "xshift": taken + 5 + height(text, LARGE) / 2}
            figure.add_annotation(text=text, textangle=-90, showarrow=False, font=font(LARGE), xanchor="center", **at)
            axis.title.text = None
            taken += 7 + height(text, LARGE)
    return taken


def _bare(text: str) -> str:
    """A title whose own line breaks are spaces."""
    return text.replace("<br>", " ")


def _words_at_y(panel: Panel, labels: list[Label], tall: float, page: float) -> float:
    kept = labels
    if len(labels) > MOST_WORDS or panel.y.scaleanchor:
        kept = labels[:: max(1, math.ceil(len(labels) * ROW / tall))]
    slot = tall / len(kept)
    folded = []
    for at, text in kept:
        if width(text) > 0.14 * page:
            text = fold_to_lines(text, max(1, min(2, int(slot / ROW))))
        folded.append((at, balanced(text, 0.36 * page)))
    if len(kept) == len(labels):
        panel.least = max(panel.least, len(kept) * (max(lines(text) for _, text in folded) * ROW + 1))
    _set(panel.y, folded)
    return max(width(text) for _, text in folded)


def _set(axis: Any, labels: Sequence[Label]) -> None:
    axis.update(tickmode="array", tickvals=[at for at, _ in labels], ticktext=[text for _, text in labels])


def _numbers_at_y(panel: Panel, tall: float) -> float:
    axis = panel.y
    low, high = extent(axis, panel.traces, "y")
    most = max(2, int(tall / (1.7 * ROW)))
    ticks = numbers(values(axis.tickvals))
    if ticks:
        axis.tickvals = ticks = ticks[:: max(1, math.ceil(len(ticks) / most))]
    elif axis.type != "log":
        if axis.dtick is None or (high - low) / float(axis.dtick) > most:
            axis.update(nticks=most, dtick=None, tickmode="auto")
        ticks = steps(low, high, most)
    return max(map(width, in_words(axis, ticks)), default=0.0)


def lay_out_x(panel: Panel, wide: float) -> float:
    """Fit what stands below a plot of some width; sets its `below`, returns how far labels reach to the right."""
    axis = panel.x
    axis.automargin = True
    deep, reach = 0.0, 0.0
    if axis.showticklabels is not False and axis.visible is not False:
        labels = labels_of(axis, panel.traces, "x")
        deep, reach = _words_at_x(panel, labels, wide) if labels else _numbers_at_x(panel, wide)
    taken = BESIDE + deep if deep else 2.0
    if axis.title.text:
        axis.title.text = balanced(_bare(axis.title.text), wide + reach, LARGE)
        taken += 5 + height(axis.title.text, LARGE)
    if axis.side == "top":
        panel.above += taken
    else:
        panel.below = taken + 3
    return reach


def _words_at_x(panel: Panel, labels: list[Label], wide: float) -> tuple[float, float]:
    """Fold labels if that is enough, else turn them, and leave out those for which there is no room even so."""
    axis = panel.x
    slot = _slot(panel, labels, wide)
    texts = [text.replace("<br>", " ") for _, text in labels]
    if axis.tickangle is None or axis.tickangle == 0:
        flat = all(width(text) + SPACE <= slot for _, text in labels)
        if flat or max(map(longest_word, texts)) + SPACE <= slot:
            folded = [(at, text if flat else balanced(text, slot - SPACE)) for at, text in labels]
            axis.tickangle = 0
            _set(axis, folded)
            return max(height(text) for _, text in folded), max(
                0.0, max(width(text) for _, text in folded) / 2 - slot / 2
            )
        if axis.ticktext is not None and all(text.isdecimal() for text in texts):
            return _thinned(axis, labels, slot)
    kept = labels[:: max(1, math.ceil((ROW + 1) / slot))]
    room = slot * len(labels) / len(kept)
    most = max(1, int(room / ROW))
    folded = [(at, balanced(text, LONGEST) if most > 1 else text) for at, text in kept]
    folded = [(at, text if lines(text) <= most else _bare(text)) for at, text in folded]
    axis.tickangle = -90
    _set(axis, folded)
    return max(width(text) for _, text in folded), 0.0


def _thinned(axis: Any, labels: list[Label], slot: float) -> tuple[float, float]:
    """Numbers written as words: every second, third ... as fits."""
    wide = max(width(text) for _, text in labels)
    kept = labels[:: max(1, math.ceil((wide + SPACE) / slot))]
    axis.tickangle = 0
    _set(axis, kept)
    return ROW, 0.0


def _slot(panel: Panel, labels: list[Label], wide: float) -> float:
    """Pixels from one label to the next; the range of categories is set so that each has as much."""
    places = numbers([at for at, _ in labels])
    if len(places) == len(labels) > 1 and panel.x.type != "category":
        low, high = extent(panel.x, panel.traces, "x")
        return wide * min(abs(b - a) for a, b in pairwise(places)) / ((high - low) or 1.0)
    if panel.x.range is None and panel.x.autorange in (None, True):
        panel.x.range = [-0.5, len(labels) - 0.5]
    return wide / len(labels)


def _numbers_at_x(panel: Panel, wide: float) -> tuple[float, float]:
    axis = panel.x
    axis.tickangle = 0
    low, high = extent(axis, panel.traces, "x")
    ticks = numbers(values(axis.tickvals))
    if axis.type == "log":
        return ROW + 3, 8.0
    if ticks:
        longest = max(map(width, in_words(axis, ticks))) + SPACE
        apart = wide * min((b - a for a, b in pairwise(ticks)), default=1.0) / (high - low)
        axis.tickvals = ticks[:: max(1, math.ceil(longest / apart))]
        return ROW, max(0.0, longest / 2 - wide * (high - max(ticks)) / (high - low))
    if axis.dtick is not None:
        ticks = steps(low, high, max(1, int((high - low) / float(axis.dtick))))
        if _fit(axis, ticks, wide, high - low):
            return ROW, 8.0
    most = next(n for n in range(12, 0, -1) if n == 1 or _fit(axis, steps(low, high, n), wide, high - low))
    ticks = steps(low, high, most)
    if len(ticks) > 1:
        axis.update(tick0=0, dtick=ticks[1] - ticks[0], tickmode="linear")
    return ROW, max(map(width, in_words(axis, ticks)), default=0.0) / 2 + 2


def _fit(axis: Any, ticks: Sequence[float], wide: float, span: float) -> bool:
    """Whether the labels of ticks fit beside each other."""
    if len(ticks) < 2:
        return True
    longest = max(map(width, in_words(axis, ticks)))
    return longest + 2 * SPACE <= wide * (ticks[1] - ticks[0]) / span
