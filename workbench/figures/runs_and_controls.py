"""The data of a figure: measurements of runs, those of each run's controls, and a dot for each seed behind a mean.

If some seeds solve a task and others fail, a mean says little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.style import PALETTE
from workbench.measurement import Measurement
from workbench.measurement.controls import control_in_words

Runs = Mapping[str, Measurement]
"""Run -> its measurement, averaged over examples."""

Controls = Mapping[str, Mapping[str, Measurement]]
"""Run -> control -> the same measure of it. A control is one of `CONTROLS`, or called by what it is: "this input"."""


@dataclass(frozen=True)
class Drawn:
    """One measurement in a figure.

    Attributes:
        run: the run that it is of, or stands beside.
        control: which control it is, in words; empty for the run itself.
        m: the measurement.
        colour: the run's.
    """

    run: str
    control: str
    m: Measurement
    colour: str

    @property
    def label(self) -> str:
        """Its name in a legend."""
        return f"{self.run}, {self.control}" if self.control else self.run


def every_line(runs: Runs, controls: Controls) -> list[Drawn]:
    """All runs, then the controls of each, with the colours of their runs."""
    colours = {run: PALETTE[i % len(PALETTE)] for i, run in enumerate(runs)}
    lines = [Drawn(run, "", m, colours[run]) for run, m in runs.items()]
    for run, colour in colours.items():
        lines += [Drawn(run, words, m, colour) for words, m in controls_of(run, controls).items()]
    return lines


def controls_of(run: str, controls: Controls) -> dict[str, Measurement]:
    """The controls of one run: their words -> the measurement."""
    return {control_in_words(name): m for name, m in controls.get(run, {}).items()}


def each_control(controls: Controls, change: Callable[[Measurement], Measurement]) -> Controls:
    """The same controls with every measurement changed in one way, such as a place selected."""
    return {run: {name: change(m) for name, m in of_run.items()} for run, of_run in controls.items()}


def dots(
    m: Measurement,
    at: Sequence[Any],
    colour: str,
    keep: np.ndarray | None = None,
    *,
    across: bool = False,
    group: str | None = None,
) -> list[go.Scatter]:
    """A trace with a dot for each seed's value; none where the measurement is not a mean over seeds.

    Args:
        m: the mean over seeds.
        at: the place on the axis of each value that is kept, in the order of `m.values.reshape(-1)`.
        colour: of the line or bar that the dots belong to.
        keep: which values are drawn; by default all.
        across: values go along x, places along y.
        group: the `offsetgroup` of the bars that the dots lie on; the figure then needs the `scattermode` "group".
    """
    if m.each is None:
        return []
    each = m.each.reshape(-1, m.each.shape[-1])
    each = each if keep is None else each[keep.reshape(-1)]
    given = m.settings.get("seeds")
    seeds = list(given) if isinstance(given, Sequence) else list(range(each.shape[-1]))
    values, places = each.reshape(-1), [place for place in at for _ in seeds]
    grouped = {} if group is None else {"offsetgroup": group, "orientation": "h" if across else "v"}
    size = {"size": 6, "opacity": 0.55} if group is None else {"size": 7, "opacity": 0.9}  # on a line, on a bar
    trace = go.Scatter(
        **({"x": values, "y": places} if across else {"x": places, "y": values}),
        **grouped,
        mode="markers",
        marker={"color": colour, "line": {"color": "white", "width": 0.8}, **size},
        customdata=seeds * len(each),
        hovertemplate="seed %{customdata}: " + ("%{x}" if across else "%{y}") + "<extra></extra>",
        showlegend=False,
    )
    return [trace]
