"""`workbench import`: make a run folder of what export wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.options import add_new_run
from workbench.cli.output import say_received
from workbench.cli.parser import Commands, add_command


def add(commands: Commands, name: str) -> None:
    parser = add_command(commands, name, run, summary="make a run folder of what export wrote")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a zip or folder, of whoever: nothing in it is executed"
    )
    add_new_run(parser)


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import unpack

    say_received(unpack(options.file, options.out))
