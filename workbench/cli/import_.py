"""`workbench import`: make a run folder of what export wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.output import say_received
from workbench.cli.parser import AddCommand


def add(command: AddCommand) -> None:
    parser = command(summary="make a run folder of what export wrote")
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="a zip or folder, of whoever: nothing in it is executed"
    )
    parser.add_shared("--out", help="the run folder to make", required=True)


def run(options: argparse.Namespace, _: list[str]) -> None:
    from workbench.sharing import unpack

    say_received(unpack(options.file, options.out))
