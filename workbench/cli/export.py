"""`workbench export`: write a run as one folder or zip."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.options import add_run
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="write a run as one folder or zip")
    add_run(parser)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder to make, or the file if it ends in .zip")


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import export

    say(f"exported {export(options.run, options.out)}; `workbench import` takes it anywhere")
