"""What `workbench train` and `workbench resume` say of the runs they trained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.output import INTERRUPTED, say, speaks

if TYPE_CHECKING:
    from workbench.runs import Run


def say_trained(runs: Sequence[Run], stack: Path | None = None) -> int:
    """Say how each run ended, and what can be done next.

    Args:
        runs: the runs, finished or stopped.
        stack: the folder of runs that were trained together, and are resumed together.

    Returns:
        The exit code: 0 if all runs are finished.
    """
    stopped = [run for run in runs if not run.finished]
    if not speaks():
        return INTERRUPTED if stopped else 0
    for run in runs:
        say(_stopped(run, stack) if run in stopped else _finished(run))
    if stopped:
        return INTERRUPTED
    say(f"next: workbench inspect {' '.join(str(run.path) for run in runs)}")
    return 0


def _stopped(run: Run, stack: Path | None) -> str:
    return f"stopped at step {run.step()} of {run.config.steps}; `workbench resume {stack or run.path}` goes on"


def _finished(run: Run) -> str:
    from workbench.measurement.numbers import percent

    if not run.config.steps:
        return f"made {run.path}: a model as it was initialised"
    metrics = run.metrics()
    accuracy = metrics.filter(regex="^accuracy").dropna(how="all").iloc[-1].iloc[0]
    early = f" at step {run.step()} of {run.config.steps}" if run.step() < run.config.steps else ""
    right = f"accuracy {percent(accuracy)}"
    if run.config.stop_on == "whole_answer" and metrics["whole_answer"].dropna().iloc[-1] != accuracy:
        right += f", whole answers {percent(metrics['whole_answer'].dropna().iloc[-1])}"
    return f"trained {run.path}{early}: {right} on {_held_out(run)}"


def _held_out(run: Run) -> str:
    """How many sequences the accuracy is measured on, and how many of them are distinct.

    That accuracy counts a question that was drawn twice twice: it is the mean over the task's distribution, and is
    logged without an interval.
    """
    from workbench.tasks import distinct
    from workbench.training.data import held_out

    size, task = run.config.eval_size, run.task()
    different = len(distinct(task, held_out(task, run.config).tokens).unique())
    text = f"{size} held-out sequences"
    return text if different == size else f"{text}, {different} of them distinct"
