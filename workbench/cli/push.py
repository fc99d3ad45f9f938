"""`workbench push`: upload a run to the Hugging Face Hub."""

from __future__ import annotations

import argparse

from workbench.cli.options import add_hugging_face, add_repository, add_run
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="upload a run to the Hugging Face Hub")
    add_run(parser, "the run folder, or one that `workbench finetune` wrote")
    add_repository(parser, "OWNER/NAME; it is made if there is none")
    add_hugging_face(parser)
    parser.add_argument("--private", action="store_true", help="nobody else sees it")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import push

    say(f"pushed {push(options.run, options.repo, hugging_face=options.hugging_face, private=options.private)}")
