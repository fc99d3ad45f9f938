"""A run over training: everything that is measured of it, at every checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from rich.console import Console
from rich.progress import track

from workbench import figures
from workbench.inspection import Inspected, inspect_run
from workbench.instruments import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run


@dataclass(frozen=True)
class Timeline:
    """A run's measurements with a new first dim, `step`.

    Attributes:
        run: the run.
        steps: its checkpoints, then its end.
        measured: instrument or mechanism -> its mean over examples at every step, with interval and n.
        controls: the same measures beside the truth of other examples.
        events: (step, what happened there), of what the run's log notes.
    """

    run: Run
    steps: list[int]
    measured: dict[str, Measurement]
    controls: dict[str, Measurement]
    events: list[tuple[int, str]]

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        return self.measured | {f"{name}-control": m for name, m in self.controls.items()}


def follow(last: Inspected, *, n: int, seed: int, progress: bool = False) -> Timeline:
    """Measure a run at every checkpoint, on the same sequences as at its end.

    The head whose attention is shown is the one that is best at the end, at every step.

    Args:
        last: the run inspected at its end, with the same n and seed.
        n, seed, progress: as for `inspect_run`.

    Raises:
        ValueError: if the run has no checkpoints.
    """
    run = last.run
    kept = [step for step in run.checkpoints() if step < run.step()]
    if not kept:
        raise ValueError(
            f"{run.path} has no checkpoints to draw a timeline of; train it with --checkpoint_count 20 (log-spaced), "
            "--checkpoint_every 100, or --checkpoint_at '[0.5, 0.9]' (accuracies)"
        )
    through = track(kept, f"{run.name} over training", console=Console(stderr=True), disable=not progress)
    inspected = [*(inspect_run(run, n=n, seed=seed, step=step, head=last.shown_head) for step in through), last]
    steps = [*kept, run.step()]

    def over_steps(of: str) -> dict[str, Measurement]:
        found = [getattr(one, of) for one in inspected]
        return {name: Measurement.stack([one[name] for one in found], "step", steps) for name in found[0]}

    measured, controls = over_steps("measured"), over_steps("controls")
    if last.gold_mass is not None:
        for target, of in ((measured, "gold_mass"), (controls, "gold_mass_control")):
            target["gold_mass"] = Measurement.stack([getattr(one, of) for one in inspected], "step", steps)
    return Timeline(run, steps, measured, controls, list(dict.fromkeys(_events(run))))


def _events(run: Run) -> Iterator[tuple[int, str]]:
    for row in run.log():
        if row.get("event") == "checkpoint":
            yield int(row["step"]), f"accuracy ≥ {max(row['passed']):.0%}"
        elif row.get("event") == "target":
            yield int(row["step"]), "target reached"


Section = tuple[str, str, list[go.Figure]]


def timeline_section(timeline: Timeline) -> Section:
    """The report's section on a run over training: its title, what it shows and does not, its figures."""
    measured, run = timeline.measured, timeline.run
    head = measured["gold_mass"].settings if "gold_mass" in measured else {}
    drawn = [_draw(timeline, "overall"), _draw(timeline, "accuracy"), _draw(timeline, "entropy")]
    if head:
        place = {name: head[name] for name in ("layer", "head")}
        drawn.append(_draw(timeline, "gold_mass", "mass of the best head"))
        drawn.append(_draw(timeline, "attention_hops", **place))
        if "chain_following" in measured:
            drawn.append(_draw(timeline, "chain_following", **place))
    drawn += [_draw(timeline, name, "claim holds") for name in ("copy", "minimum", "successor") if name in measured]
    text = (
        f"The same sequences at each of {len(timeline.steps)} checkpoints of one run (seed {run.config.seed}), from "
        f"step {timeline.steps[0]:,}; bands are 95 % intervals over sequences, not over seeds. What changes together "
        "need not be cause and effect. "
    )
    text += "Attention is that of layer {layer}, head {head}, which is best at the end.".format(**head) if head else ""
    return f"Over training: {run.name}", text, drawn


def _draw(timeline: Timeline, name: str, alone: str = "", **where: Any) -> go.Figure:
    """One measurement over training; `alone` is what to call a line that has no place."""
    own = timeline.measured[name]
    found = lines(own, **where)
    control = lines(timeline.controls[name], **where) if name in MECHANISMS or name == "gold_mass" else {}
    named, controls = (
        {figures.line_name(label) or alone: line for label, line in one.items()} for one in (found, control)
    )
    in_order = bool({"layer", "hop", "length", "digit"} & set(own.dims)) and len(named) > 2
    place = ", ".join(f"{dim} {label}" for dim, label in where.items())
    return figures.over_training(named, own.name, place, controls=controls, in_order=in_order, events=timeline.events)


def lines(measurement: Measurement, **where: Any) -> dict[str, Measurement]:
    """A measurement over steps as one line for each place that has any value: label -> dims `("step",)`."""
    part = measurement.select(**where)
    inner = part.dims[1:]
    found = {}
    for index in np.ndindex(*part.values.shape[1:]):
        place = {dim: part.coords[dim][i] for dim, i in zip(inner, index, strict=True)}
        line = part.select(**place)
        if not np.isnan(line.values).all():
            found[", ".join(f"{dim} {label}" for dim, label in place.items())] = line
    return found
