"""`workbench pull`: download a run from the Hugging Face Hub."""

from __future__ import annotations

import argparse

from workbench.cli.options import add_new_run, add_repository
from workbench.cli.output import say_received
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="download a run from the Hugging Face Hub")
    add_repository(parser)
    add_new_run(parser)
    parser.add_argument("--revision", metavar="REV", help="a branch, tag or commit (default: the latest)")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import pull

    say_received(pull(options.repo, options.out, revision=options.revision))
