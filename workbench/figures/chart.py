"""Lines over one dim as a drawing, for pages that have no Plotly: entropy by layer, accuracy by group or over steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from workbench.figures.drawing import Drawing, element, text
from workbench.figures.style import BLUE, GREY, PURPLE, VERMILLION
from workbench.measurement import Measurement
from workbench.measurement.numbers import with_interval
from workbench.measurement.places import POINTS, point_name

WIDE, TALL = 420, 270  # pixels
LEFT, RIGHT, BELOW = 48, 14, 44  # around the plot: the numbers left of it, the names of the ticks below
LEGEND = 17  # pixels of a line of it, above the plot
COLOURS = (BLUE, GREY, VERMILLION, PURPLE)
NICE = (1, 2, 2.5, 5, 10)  # of which, times a power of ten, ticks are multiples
FEW = 8  # places that all have a tick
MARKED = 60  # points of a line, at most, that have large marks


def chart(title: str, lines: Mapping[str, Measurement]) -> Drawing:
    """Measurements of one and the same dim as lines, with their 95 % intervals; all but the first are dashed.

    Args:
        title: what is drawn.
        lines: name in the legend -> the measurement, whose only dim is the same in all.
    """
    first = next(iter(lines.values()))
    (dim,) = first.dims
    labels = list(dict.fromkeys(label for m in lines.values() for label in m.coords[dim]))
    numeric = all(isinstance(label, int | float) for label in labels)
    at = {label: float(label) if numeric else float(i) for i, label in enumerate(labels)}
    values = np.concatenate([m.values[np.isfinite(m.values)] for m in lines.values()])
    axes = _Axes(
        at.values(), 1.0 if first.units == "share" else float(values.max(initial=0.0)), LEGEND * len(lines) + 10
    )
    parts = [*axes.rows(first.units), *axes.columns({x: _name(dim, label) for label, x in at.items()}, dim, numeric)]
    for i, (name, m) in enumerate(lines.items()):
        style: dict[str, Any] = {"stroke": COLOURS[i % len(COLOURS)]}
        style |= {"stroke_width": 2 if i else 2.5, "stroke_dasharray": "5 4" if i else None}
        parts += _line(axes, at, m, name, style)
        y = LEGEND * (i + 0.5)
        parts.append(element("path", d=f"M{LEFT} {y}h22", fill="none", **style))
        parts.append(text(name, LEFT + 28, y, 12, text_anchor="start"))
    return Drawing(title, "", "".join(parts), WIDE, TALL)


class _Axes:
    """Where numbers are in the plot, which begins at `top` and whose values go from 0 to `most`, rounded up."""

    def __init__(self, x: Iterable[float], most: float, top: float) -> None:
        known = list(x)
        self.x0, self.x1, self.top = min(known), max(known), top
        self.step = _nice(most / 4)
        self.n_steps = int(np.ceil(most / self.step - 1e-9)) or 1

    def x(self, value: float) -> float:
        inner = WIDE - LEFT - RIGHT - 16
        return LEFT + 8 + inner * (0.5 if self.x1 == self.x0 else (value - self.x0) / (self.x1 - self.x0))

    def y(self, value: float) -> float:
        return TALL - BELOW - (TALL - self.top - BELOW) * value / (self.step * self.n_steps)

    def rows(self, units: str) -> list[str]:
        """Lines across, with their numbers."""
        parts = []
        for value in (self.step * i for i in range(self.n_steps + 1)):
            y = self.y(value)
            parts.append(element("path", d=f"M{LEFT} {y:.1f}H{WIDE - RIGHT}", stroke=GREY, stroke_opacity=0.3))
            shown = f"{value:.0%}" if units == "share" else f"{value:g}"
            parts.append(text(shown, LEFT - 6, y, 11, text_anchor="end", class_="quiet"))
        return [*parts, text("" if units == "share" else units, LEFT - 6, LEGEND / 2, 11, text_anchor="end")]

    def columns(self, names: Mapping[float, str], dim: str, numeric: bool) -> list[str]:
        """The names of places below the plot: of many numbers round ones, of many names some."""
        if numeric and len(names) > FEW:
            step = _nice((self.x1 - self.x0) / 5)
            ticks = np.arange(np.ceil(self.x0 / step), np.floor(self.x1 / step) + 1) * step
            names = {float(tick): f"{tick:,g}" for tick in ticks}
        elif dim in POINTS:  # of long names the first, one in the middle, and the last
            every = list(names.items())
            names = dict([every[0], every[len(every) // 2], every[-1]])
        anchor = {self.x0: "start", self.x1: "end"} if dim in POINTS else {}  # within the drawing, though long
        parts = [
            text(name, self.x(x), TALL - BELOW + 16, 11, class_="quiet", text_anchor=anchor.get(x, "middle"))
            for x, name in names.items()
        ]
        return [*parts, text("" if dim in POINTS else dim, (LEFT + WIDE - RIGHT) / 2, TALL - 10, 12)]


def _nice(step: float) -> float:
    """The next round number from here on."""
    power = 10.0 ** np.floor(np.log10(step)) if step > 0 else 1.0
    return next(float(nice * power) for nice in NICE if nice * power >= step * (1 - 1e-9))


def _name(dim: str, label: Any) -> str:
    return point_name(label) if dim in POINTS else f"{label:,}" if isinstance(label, int) else str(label)


def _line(axes: _Axes, at: Mapping[Any, float], m: Measurement, name: str, style: Mapping[str, Any]) -> list[str]:
    """One line, its intervals, and a mark at each value that says it on hover."""
    (dim,) = m.dims
    known = [(label, i) for i, label in enumerate(m.coords[dim]) if np.isfinite(m.values[i])]
    points = [(axes.x(at[label]), axes.y(float(m.values[i]))) for label, i in known]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    parts = [element("path", d=path, fill="none", **style)] if len(points) > 1 else []
    for (label, i), (x, y) in zip(known, points, strict=True):
        low, high = (None if side is None else float(side[i]) for side in (m.low, m.high))
        if low is not None and high is not None and np.isfinite([low, high]).all():
            bar = f"M{x:.1f} {axes.y(low):.1f}V{axes.y(high):.1f}"
            parts.append(element("path", d=bar, stroke=style["stroke"], stroke_width=1.2))
        n = "" if m.n is None else f", n = {int(m.n[i]):,}"
        tip = f"{name}, {'' if dim in POINTS else f'{dim} '}{_name(dim, label)}: "
        tip += f"{with_interval(float(m.values[i]), low, high, m.units)}{n}"
        radius = 3.5 if len(known) <= MARKED else 1.5
        parts.append(element("circle", cx=x, cy=y, r=radius, fill=style["stroke"], data_tip=tip))
    return parts
