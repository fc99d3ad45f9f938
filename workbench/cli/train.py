"""`workbench train`: train a preset and write a run folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import INTERRUPTED, say, speaks
from workbench.cli.parser import AddCommand, parse_fields

if TYPE_CHECKING:
    from workbench.runs import Run, RunConfig


def add(command: AddCommand) -> None:
    parser = command(
        summary="train a preset and write a run folder",
        description="Train a preset and write a run folder. Every field of the preset can be replaced: --steps 200 "
        "--seed 1 --task.n 64 --model.attention standard --model.attention.gamma 0.8 "
        "--objectives.seq_vcr.covariance_weight 0.1 … `workbench list fields` shows them all. With --task NAME and no "
        "preset, a standard model of two layers learns that task.",
        usage="PRESET | --task NAME --out DIR [--FIELD VALUE …]",
        takes_fields=True,
    )
    parser.no_name = ""
    parser.add_argument("preset", metavar="PRESET", help="its name; `workbench list presets` shows them")
    parser.add_argument("--task", metavar="NAME", help="this task; `workbench list tasks` shows them")
    parser.add_shared("--out", help="the run folder to make", required=True)
    parser.add_argument("--seeds", type=int, metavar="N", help="N seeds at once as a stack: run folders DIR/seed-0 …")
    parser.add_shared("--track", "--quiet")


def run(options: argparse.Namespace, fields: list[str]) -> int:
    from workbench.training import train, train_seeds

    config = _config(options, parse_fields(fields))
    shown = {"progress": not options.quiet, "track": options.track}
    if options.seeds is None:
        return say_trained([train(config, options.out, **shown)])
    return say_trained(train_seeds(config, options.out, options.seeds, **shown), options.out)


def _config(options: argparse.Namespace, fields: dict[str, Any]) -> RunConfig:
    """The config of a preset, or of a task without one."""
    from workbench.training import preset_config

    if options.task is None and not options.preset:
        raise ValueError(
            "name a preset first, or a task with --task; `workbench list presets` and `list tasks` show them"
        )
    if options.task is None:
        return preset_config(options.preset, fields)
    if not isinstance(settings := fields.pop("task", {}), dict) or "name" in settings:
        raise ValueError("the task is named twice")
    return preset_config(options.preset or None, {**fields, "task": {"name": options.task, **settings}})


def say_trained(runs: Sequence[Run], stack: Path | None = None) -> int:
    """Say how each run ended, and what can be done next.

    Args:
        runs: the runs, finished or stopped.
        stack: the folder of runs that were trained together, and are resumed together.

    Returns:
        The exit code: 0 if all runs are finished.
    """
    stopped = not all(run.finished for run in runs)
    if speaks():
        for run in runs:
            if run.finished:
                say(_finished(run))
            else:
                again = f"`workbench resume {stack or run.path}` goes on"
                say(f"stopped at step {run.step()} of {run.config.steps}; {again}")
        if not stopped:
            say(f"next: workbench inspect {' '.join(str(run.path) for run in runs)}")
    return INTERRUPTED if stopped else 0


def _finished(run: Run) -> str:
    """What a run has learned, and on how many sequences that is measured.

    The accuracy counts a question that was drawn twice twice: it is the mean over the task's distribution, and is
    logged without an interval.
    """
    from workbench.measurement.numbers import percent
    from workbench.tasks import distinct
    from workbench.training.data import held_out

    config = run.config
    if not config.steps:
        return f"made {run.path}: a model as it was initialised"
    metrics = run.metrics()
    accuracy = metrics.filter(regex="^accuracy").dropna(how="all").iloc[-1].iloc[0]
    right = f"accuracy {percent(accuracy)}"
    if config.stop_on == "whole_answer" and metrics["whole_answer"].dropna().iloc[-1] != accuracy:
        right += f", whole answers {percent(metrics['whole_answer'].dropna().iloc[-1])}"
    early = f" at step {run.step()} of {config.steps}" if run.step() < config.steps else ""
    task, size = run.task(), config.eval_size
    different = len(distinct(task, held_out(task, config).tokens).unique())
    repeated = "" if different == size else f", {different} of them distinct"
    return f"trained {run.path}{early}: {right} on {size} held-out sequences{repeated}"
