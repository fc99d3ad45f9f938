"""`workbench resume`: go on training a run, or fine-tuning a model, that was stopped or killed."""

from __future__ import annotations

import argparse

from workbench.cli.finetune import say_finetuned
from workbench.cli.options import add_quiet, add_run, add_tensorboard, refuse
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command
from workbench.cli.training_result import say_trained


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="go on training a run that was stopped or killed")
    add_run(parser, "the run folder; of --seeds, the folder of all; or one that `workbench finetune` writes")
    add_tensorboard(parser)
    add_quiet(parser)


def run(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.runs import load_run
    from workbench.training import resume, resume_seeds, stacked
    from workbench.training.finetune import resume_finetune
    from workbench.training.finetune_config import is_finetuning

    shown = {"progress": not options.quiet, "tensorboard": options.tensorboard}
    if is_finetuning(options.run):
        refuse(options, ("tensorboard",), "is of runs that `workbench train` makes; leave it out")
        return say_finetuned(resume_finetune(options.run, progress=not options.quiet))
    if stacked(options.run):
        return say_trained(resume_seeds(options.run, **shown), options.run)
    was_finished = load_run(options.run).finished
    resumed = resume(options.run, **shown)
    if not was_finished:
        return say_trained([resumed])
    say(f"{options.run} is finished; there is nothing to resume")
    return 0
