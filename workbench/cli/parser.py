"""The argument parser, and how a command is added to it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What commands are added to."""

Run = Callable[[argparse.Namespace, list[str]], int | None]
"""What a command does: its options and its fields (`--task.n 64 …`) in, the exit code out; None is 0."""


class Parser(argparse.ArgumentParser):
    """argparse with its errors in one line, and with names before, between or after the options.

    Attributes:
        mixed: whether names may follow options. Not where unknown options are passed on as fields: their values could
            not be told from names.
        no_name: what stands for the name of a command that takes fields, where it begins with an option; None if a
            name is needed.
    """

    mixed = False
    no_name: str | None = None

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if self.no_name is not None and args and args[0].startswith("--") and "--help" not in args:
            args = [self.no_name, *args]
        if not self.mixed:
            return super().parse_known_args(args, namespace)
        self.mixed = False  # argparse does it by calling this method twice
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.mixed = True

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; see `{self.prog} --help`")


def add_command(
    commands: Commands,
    name: str,
    run: Run,
    *,
    summary: str,
    description: str | None = None,
    usage: str | None = None,
    takes_fields: bool = False,
) -> Parser:
    """Add a command and return its parser, to which the command adds its options.

    Args:
        commands: where to add it.
        name: what is typed for it.
        run: what it does.
        summary: its line in `workbench --help`.
        description: the paragraph above its options in its own help.
        usage: what follows `workbench NAME` in its help; by default argparse writes it.
        takes_fields: whether options that its parser does not know are passed on to `run` as fields.
    """
    usage = None if usage is None else f"workbench {name} {usage}"
    parser = commands.add_parser(name, help=summary, description=description, usage=usage, allow_abbrev=False)
    parser.register("type", Path, _path)
    parser.set_defaults(command=run, takes_fields=takes_fields, default_of=parser.get_default)
    parser.add_argument(
        "--plugin", action="append", default=[], metavar="FILE.py", help="load parts of your own from this file"
    )
    parser.mixed = not takes_fields
    return parser


def _path(text: str) -> Path:
    """What is made of every path that is given: an empty one, which `Path` takes for the current folder, is none."""
    if not text:
        raise argparse.ArgumentTypeError("the path is empty; give a path, or . for the current folder")
    return Path(text)
