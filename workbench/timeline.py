"""A run over training: everything that is measured of it, at every checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from rich.console import Console
from rich.progress import track

from workbench import figures
from workbench.inspection import Inspected, Settings, inspect_run
from workbench.instruments import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run

NULL = "mismatched"  # an untrained model is the first checkpoint
MOST_LINES = 14


@dataclass(frozen=True)
class Timeline:
    """A run's measurements with a new first dim, `step`.

    Attributes:
        run: the run.
        name: what to call it.
        steps: its checkpoints, then its end.
        measured: instrument or mechanism -> its mean over examples at every step, with interval and n.
        controls: the same measures beside the truth of other examples.
        head: the layer and head whose attention is shown.
        events: (step, what happened there), of what the run's log notes.
    """

    run: Run
    name: str
    steps: list[int]
    measured: dict[str, Measurement]
    controls: dict[str, Measurement]
    head: tuple[int, int]
    events: list[tuple[int, str]]

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        return self.measured | {f"{name}-{NULL}": m for name, m in self.controls.items()}


def follow(
    last: Inspected,
    *,
    n: int,
    seed: int,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    progress: bool = False,
) -> Timeline:
    """Measure a run at every checkpoint, on the same sequences as at its end.

    The head whose attention is shown is the one that is best at the end, at every step. Models are not edited.

    Args:
        last: the run inspected at its end, with the same n, seed, names and settings.
        n, seed, only, settings, progress: as for `inspect_run`.

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
    how = {"n": n, "seed": seed, "name": last.name, "only": only, "settings": settings, "head": last.shown_head}
    through = track(kept, f"{last.name} over training", console=Console(stderr=True), disable=not progress)
    inspected = [inspect_run(run, step=step, nulls=(NULL,), causal=False, **how) for step in through]  # type: ignore[arg-type]
    inspected.append(last)
    steps = [*kept, run.step()]

    def over_steps(found: Sequence[Measurement]) -> Measurement:
        return Measurement.stack(found, "step", steps)

    measured = {name: over_steps([one.measured[name] for one in inspected]) for name in last.measured}
    controls = {
        name: over_steps([one.controls[name][NULL] for one in inspected])
        for name, nulls in last.controls.items()
        if NULL in nulls
    }
    if last.gold_mass is not None:
        for target, of in ((measured, "gold_mass"), (controls, "gold_mass_control")):
            target["gold_mass"] = over_steps([getattr(one, of) for one in inspected])
    return Timeline(run, last.name, steps, measured, controls, last.shown_head, list(dict.fromkeys(_events(run))))


def _events(run: Run) -> Iterator[tuple[int, str]]:
    for row in run.log():
        if row.get("event") == "checkpoint":
            yield int(row["step"]), f"accuracy ≥ {max(row['passed']):.0%}"
        elif row.get("event") == "target":
            yield int(row["step"]), "target reached"


Section = tuple[str, str, list[go.Figure]]


def timeline_section(timeline: Timeline) -> Section:
    """The report's section on a run over training: its title, what it shows and does not, its figures."""
    drawn = [_draw(timeline, name) for name in timeline.measured if name != "entropy"]
    if "entropy" in timeline.measured:
        drawn += figures.by_layer_over_training({timeline.name: timeline.measured["entropy"]}, {})
    text = (
        f"The same sequences at each of {len(timeline.steps)} checkpoints of one run (seed "
        f"{timeline.run.config.seed}), from step {timeline.steps[0]:,}; bands are 95 % intervals over sequences, not "
        "over seeds. What changes together need not be cause and effect."
    )
    if "gold_mass" in timeline.measured:
        text += " Attention is that of layer {}, head {}, which is best at the end.".format(*timeline.head)
    return f"Over training: {timeline.name}", text, drawn


def _draw(timeline: Timeline, name: str) -> go.Figure:
    """One measurement over training: lines, with the control of claims; where there are too many, a map."""
    own = timeline.measured[name]
    layer, head = timeline.head
    where: dict[str, Any] = {"layer": layer, "head": head} if "head" in own.dims else {}
    found = lines(own, **where)
    if len(found) > MOST_LINES:
        return figures.map_over_training({figures.line_name(label): line for label, line in found.items()}, own.name)
    asked = name in MECHANISMS or name == "gold_mass"
    control = lines(timeline.controls[name], **where) if asked and name in timeline.controls else {}
    alone = "claim holds" if name in MECHANISMS else own.name
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
