"""`workbench compile`: write a model whose mechanism is known as a run folder."""

from __future__ import annotations

import argparse

from workbench.cli.output import say
from workbench.cli.parser import AddCommand, parse_fields


def add(command: AddCommand) -> None:
    parser = command(
        summary="write a model whose mechanism is known as a run folder",
        description="Write a model whose weights are worked out, not learned, as a run folder to try instruments on. "
        "`workbench list compiled` shows them and their settings: --q 100 --form layernorm …",
        usage="NAME --out DIR [--SETTING VALUE …]",
        takes_fields=True,
    )
    parser.add_argument("model", metavar="NAME", help="its name; `workbench list compiled` shows them")
    parser.add_shared("--out", help="the run folder to make", required=True)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.runs.compiled import compile_run

    made = compile_run(options.model, options.out, parse_fields(fields))
    say(f"made {made.path}: {made.config.preset}, {made.config.task['name']}\nnext: workbench inspect {made.path}")
