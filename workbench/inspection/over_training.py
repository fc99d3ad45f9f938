"""A run over training: every measure at every checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import track

from workbench.inspection import Inspected, inspect_run
from workbench.inspection.learning_curves import events
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.runs import Run

NULL = "mismatched"  # an untrained model is the first checkpoint


@dataclass(frozen=True)
class Moment:
    """The measurements of a run at one training step.

    Attributes:
        step: the training step.
        measured: instrument or mechanism -> its mean over examples, with interval and n.
        controls: the same measures against the truth of other examples.
        head: the layer and head in focus.
    """

    step: int
    measured: dict[str, Measurement]
    controls: dict[str, Measurement]
    head: Head | None

    @staticmethod
    def of(inspected: Inspected, step: int) -> Moment:
        """The part of an inspection that goes into a timeline."""
        measured = {name: result.mean for name, result in inspected.results.items()}
        controls = {
            name: result.controls[NULL].mean for name, result in inspected.results.items() if NULL in result.controls
        }
        return Moment(step, measured, controls, inspected.head)


@dataclass(frozen=True)
class Timeline:
    """A run's measurements with a new first dim, `step`.

    Attributes:
        run: the run.
        name: what to call it.
        steps: its checkpoints, then its end.
        measured: instrument or mechanism -> its mean over examples at every step, with interval and n.
        controls: the same measures against the truth of other examples.
        head: the layer and head in focus.
        events: (step, words), from the run's log.
    """

    run: Run
    name: str
    steps: list[int]
    measured: dict[str, Measurement]
    controls: dict[str, Measurement]
    head: Head | None
    events: list[tuple[int, str]]

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        return self.measured | {f"{name}-{NULL}": m for name, m in self.controls.items()}


def checkpoints(run: Run, *, required: bool = False) -> list[int]:
    """The steps of a run's checkpoints before its end.

    Raises:
        ValueError: if the run does not say at which step its latest weights were saved; or, where some are required, if
            there are none, with how to get them.
    """
    last = run.step()
    kept = [step for step in run.checkpoints() if step < last]
    if required and not kept:
        raise ValueError(
            f"{run.path} has no checkpoints to draw a timeline of; train it with --checkpoint_count 20 (log-spaced), "
            "--checkpoint_every 100, or --checkpoint_at '[0.5, 0.9]' (accuracies)"
        )
    return kept


def moment(run: Run, step: int | None = None, **options: Any) -> Moment:
    """Measure a run at one checkpoint, or its end, on held-out sequences, without causal tests.

    Args:
        run: the run.
        step: the checkpoint's; by default the end.
        options: as for `inspect_run`: n, seed, and name, only, settings, head, conditions.

    Raises:
        ValueError: as `inspect_run`; if there is no such checkpoint, or it is damaged.
    """
    return Moment.of(
        inspect_run(run, step=step, nulls=(NULL,), causal=False, **options), run.step() if step is None else step
    )


def measure(run: Run, *, progress: bool = False, **options: Any) -> Timeline:
    """Measure a run at its end and at every checkpoint, on the same sequences.

    The head in focus is the one that is best at the end, at every step, unless one is given.

    Args:
        run: the run.
        progress: show a progress bar on standard error.
        options: as for `moment`: n, seed, and name, only, settings, head, conditions.

    Raises:
        ValueError: if the run has no checkpoints, and as `moment`.
    """
    checkpoints(run, required=True)  # told before the end is measured
    return follow(inspect_run(run, nulls=(NULL,), causal=False, **options), progress=progress, **options)


def follow(last: Inspected, *, progress: bool = False, **options: Any) -> Timeline:
    """`measure` for a run that is already inspected at its end.

    Args:
        last: the run inspected at its end, with the same n, seed, names, settings and conditions.
        progress: show a progress bar on standard error.
        options: as for `moment`.

    Raises:
        ValueError: if the run has no checkpoints, and as `moment`.
    """
    run, name = last.run, last.name
    steps, console = checkpoints(run, required=True), Console(stderr=True)
    kept = track(steps, f"{escape(name)} over training", console=console, disable=not progress)
    options |= {"name": name, "head": last.head}
    return join(run, [*(moment(run, step, **options) for step in kept), Moment.of(last, run.step())], name)


def join(run: Run, moments: Sequence[Moment], name: str | None = None) -> Timeline:
    """A timeline of moments of one run, measured alike and in order of their steps.

    Args:
        run: the run.
        moments: the last one decides what is in the timeline.
        name: what to call the run; by default its folder's name.
    """
    last, steps = moments[-1], [moment.step for moment in moments]
    at_all = [key for key in last.controls if all(key in moment.controls for moment in moments)]
    measured, controls = (
        {key: Measurement.stack([getattr(moment, which)[key] for moment in moments], "step", steps) for key in keys}
        for which, keys in (("measured", last.measured), ("controls", at_all))
    )
    return Timeline(run, name or run.name, steps, measured, controls, last.head, events(run))
