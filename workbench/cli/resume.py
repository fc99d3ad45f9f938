"""`workbench resume`: go on training a run that was stopped or killed."""

from __future__ import annotations

import argparse

from workbench.cli.options import add_quiet, add_run, add_tensorboard
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command
from workbench.cli.training_result import say_trained


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="go on training a run that was stopped or killed")
    add_run(parser, "the run folder; of --seeds, the folder of all")
    add_tensorboard(parser)
    add_quiet(parser)


def run(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.runs import load_run
    from workbench.training import resume, resume_seeds, stacked

    shown = {"progress": not options.quiet, "tensorboard": options.tensorboard}
    if stacked(options.run):
        return say_trained(resume_seeds(options.run, **shown), options.run)
    was_finished = load_run(options.run).finished
    resumed = resume(options.run, **shown)
    if not was_finished:
        return say_trained([resumed])
    say(f"{options.run} is finished; there is nothing to resume")
    return 0
