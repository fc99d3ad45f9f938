"""`workbench train`: train a preset and write a run folder."""

from __future__ import annotations

import argparse

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_new_run, add_quiet, add_tensorboard
from workbench.cli.parser import Commands, add_command
from workbench.cli.training_result import say_trained


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="train a preset and write a run folder",
        description="Train a preset and write a run folder. Every field of the preset can be replaced: --steps 200 "
        "--seed 1 --task.n 64 --model.attention standard --model.attention.gamma 0.8 "
        "--objectives.seq_vcr.covariance_weight 0.1 … `workbench list fields` shows them all.",
        usage="PRESET --out DIR [--FIELD VALUE …]",
        takes_fields=True,
    )
    parser.add_argument("preset", metavar="PRESET", help="its name; `workbench list presets` shows them")
    add_new_run(parser)
    parser.add_argument("--seeds", type=int, metavar="N", help="N seeds at once as a stack: run folders DIR/seed-0 …")
    add_tensorboard(parser)
    add_quiet(parser)


def run(options: argparse.Namespace, fields: list[str]) -> int:
    from workbench.training import preset_config, train, train_seeds

    config = preset_config(options.preset, parse_fields(fields))
    shown = {"progress": not options.quiet, "tensorboard": options.tensorboard}
    if options.seeds is None:
        return say_trained([train(config, options.out, **shown)])
    return say_trained(train_seeds(config, options.out, options.seeds, **shown), options.out)
