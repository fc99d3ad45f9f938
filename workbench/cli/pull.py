"""`workbench pull`: download a run from the Hugging Face Hub."""

from __future__ import annotations

import argparse

from workbench.cli.output import say_received
from workbench.cli.parser import AddCommand


def add(command: AddCommand) -> None:
    parser = command(summary="download a run from the Hugging Face Hub")
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME")
    parser.add_shared("--out", help="the run folder to make", required=True)
    parser.add_argument("--revision", metavar="REV", help="a branch, tag or commit (default: the latest)")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import pull

    say_received(pull(options.repo, options.out, revision=options.revision))
