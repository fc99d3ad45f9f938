"""The data of a figure: measurements of runs, and those of each run's controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
