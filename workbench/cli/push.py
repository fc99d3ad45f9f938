"""`workbench push`: upload a run to the Hugging Face Hub."""

from __future__ import annotations

import argparse

from workbench.cli.output import say
from workbench.cli.parser import AddCommand


def add(command: AddCommand) -> None:
    parser = command(summary="upload a run to the Hugging Face Hub")
    parser.add_shared("run", help="the run folder, or one that `workbench finetune` wrote")
    parser.add_argument("repo", metavar="REPO", help="OWNER/NAME; it is made if there is none")
    parser.add_shared("--hugging-face")
    parser.add_argument("--private", action="store_true", help="nobody else sees it")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import push

    say(f"pushed {push(options.run, options.repo, hugging_face=options.hugging_face, private=options.private)}")
