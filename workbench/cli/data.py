"""`workbench data`: print or write a task's sequences."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_out, add_quiet, add_seed, add_where, add_workers, refuse
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command
from workbench.util.messages import brief
from workbench.util.settings import parse_condition

if TYPE_CHECKING:
    from workbench.tasks.export import Recipe


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="print or write a task's sequences",
        description="Print a task's sequences as people read them, or write them to a .parquet or .jsonl file; given "
        "such a file, print what is in it. Every setting of the task can be given: --q 9 --hints successor …; "
        "`workbench list tasks` shows them all.",
        usage="TASK|FILE [--count N] [--split train|test] [--out FILE] [--SETTING VALUE …]",
        takes_fields=True,
    )
    parser.add_argument("task", metavar="TASK|FILE", help="a task's name, or a file that this command wrote")
    parser.add_argument("--count", type=int, default=3, help="how many sequences (default: 3)")
    add_seed(parser, "their seed")
    parser.add_argument("--split", choices=("train", "test"), help="one side of the task's split (default: both)")
    parser.add_argument("--head", default="main", help="main, or a hint that the task has (default: main)")
    add_where(parser, "NAME=VALUE", "narrow the draw: length=16")
    add_out(parser, "write them there instead of printing", metavar="FILE")
    add_workers(parser, "processes that draw; the file is the same for any number", 0)
    add_quiet(parser)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.tasks import make
    from workbench.tasks.export import FORMATS, Recipe, show, stream

    if options.count < 1:
        raise ValueError(f"count must be at least 1, not {options.count}")
    if Path(options.task).suffix in FORMATS:
        _show_file(options, fields)
        return
    task = make(options.task, **parse_fields(fields))
    condition = parse_condition(options.where)
    recipe = Recipe(task, options.count, options.seed, options.split, options.head, condition)
    if options.out is not None:
        _write(recipe, options)
        return
    number = 0
    for batch in stream(recipe, workers=options.workers):
        for index in range(len(batch)):
            number += 1
            say(f"{number}\n{show(task, batch, index)}\n")


def _show_file(options: argparse.Namespace, fields: list[str]) -> None:
    """Print what is in a file."""
    from workbench.tasks.export import show
    from workbench.tasks.exported import read

    if fields:
        raise ValueError(f"{options.task} holds its task's settings already; leave out {fields[0]}")
    refuse(
        options,
        ("seed", "split", "head", "where", "out", "workers"),
        f"is of sequences that are drawn, and {options.task} holds its own",
    )
    task, batches = read(options.task)
    number = 0
    for batch in batches:
        for index in range(min(len(batch), options.count - number)):
            number += 1
            try:
                shown = show(task, batch, index)
            except (ValueError, IndexError, KeyError, RuntimeError, TypeError):  # its tokens are anybody's
                raise ValueError(f"{options.task} is damaged: sequence {number} is none of {task.name}") from None
            say(f"{number}\n{shown}\n")
        if number == options.count:
            return


def _write(recipe: Recipe, options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    from workbench.tasks.export import write
    from workbench.util.interrupts import Interrupts

    counts = write(recipe, options.out, workers=options.workers)
    bar = Progress(console=Console(stderr=True), disable=options.quiet)
    with Interrupts() as interrupts, closing(counts), bar as progress:
        writing = progress.add_task(escape(f"writing {brief(options.out)}"), total=options.count)
        for written in counts:
            progress.update(writing, completed=written)
            if interrupts.requested and written < options.count:
                raise KeyboardInterrupt
    say(f"wrote {options.count} sequences to {options.out}; `workbench data {options.out}` shows them")
