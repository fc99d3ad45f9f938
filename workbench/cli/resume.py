"""`workbench resume`: go on training a run, or fine-tuning a model, that was stopped or killed."""

from __future__ import annotations

import argparse

from workbench.cli.finetune import say_finetuned
from workbench.cli.output import say
from workbench.cli.parser import AddCommand, refuse
from workbench.cli.train import say_trained


def add(command: AddCommand) -> None:
    parser = command(summary="go on training a run that was stopped or killed")
    parser.add_shared(
        "run", help="the run folder; of --seeds, the folder of all; or one that `workbench finetune` writes"
    )
    parser.add_shared("--track", "--quiet")


def run(options: argparse.Namespace, _: list[str]) -> int:
    from workbench.runs import WEIGHTS
    from workbench.runs.model_run import FINETUNE
    from workbench.training.finetune_config import Finetuned
    from workbench.training.resume_any import resume

    if (options.run / FINETUNE).is_file():
        refuse(options, ("track",), "is of runs that `workbench train` makes; leave it out")
    was_finished = (options.run / WEIGHTS).is_file()
    resumed = resume(options.run, progress=not options.quiet, track=options.track)
    if isinstance(resumed, Finetuned):
        return say_finetuned(resumed)
    if isinstance(resumed, list):
        return say_trained(resumed, options.run)
    if not was_finished:
        return say_trained([resumed])
    say(f"{options.run} is finished; there is nothing to resume")
    return 0
