"""`workbench train`: train a preset and write a run folder."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from workbench.cli.parser import AddCommand, parse_fields
from workbench.cli.training_result import say_trained

if TYPE_CHECKING:
    from workbench.runs import RunConfig


NO_PRESET = ""


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
    parser.no_name = NO_PRESET
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
    from workbench.training import preset_config, task_config

    if options.task is None and options.preset == NO_PRESET:
        raise ValueError(
            "name a preset first, or a task with --task; `workbench list presets` and `list tasks` show them"
        )
    if options.task is None:
        return preset_config(options.preset, fields)
    if not isinstance(settings := fields.pop("task", {}), dict) or "name" in settings:
        raise ValueError("the task is named twice")
    if options.preset == NO_PRESET:
        return task_config(options.task, {**fields, "task": settings})
    return preset_config(options.preset, {**fields, "task": {"name": options.task, **settings}})
