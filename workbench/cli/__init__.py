"""The command line, one file a command. Each command imports the libraries it needs only when it runs."""

from __future__ import annotations

import os
import select
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from io import TextIOWrapper
from typing import Any

from workbench.cli import (
    bench,
    check,
    circuit,
    compile,
    data,
    explore,
    export,
    finetune,
    generate,
    heads,
    import_,
    inspect,
    list,
    mcp,
    new,
    patch,
    probe,
    pull,
    push,
    resume,
    runs,
    study,
    sweep,
    table,
    train,
)
from workbench.cli.output import BAD_INPUT, FAILED, INTERRUPTED, PATH_ERRORS, UNREAD, complain, path_error, warn
from workbench.cli.parser import Parser, add_command, parse_fields
from workbench.util.distribution import mixed_up, version
from workbench.util.messages import Notice
from workbench.util.plugins import load_plugins
from workbench.util.progress import interrupted, shown

__all__ = ["COMMANDS", "main", "parse_fields"]

COMMANDS = {
    "train": train,
    "resume": resume,
    "finetune": finetune,
    "sweep": sweep,
    "study": study,
    "bench": bench,
    "compile": compile,
    "inspect": inspect,
    "probe": probe,
    "circuit": circuit,
    "patch": patch,
    "heads": heads,
    "check": check,
    "generate": generate,
    "explore": explore,
    "mcp": mcp,
    "data": data,
    "export": export,
    "import": import_,
    "push": push,
    "pull": pull,
    "runs": runs,
    "table": table,
    "list": list,
    "new": new,
}
"""What is typed -> its module: `add(command)` adds it with its options, `run(options, fields)` does it."""

LONG = ("inspect", "probe", "circuit", "patch", "heads", "bench")  # what may take long, and says how long


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="workbench", description="Train small transformers on algorithmic tasks, then see how they do it."
    )
    parser.add_argument("--version", action="version", version=f"workbench {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="name")
    for name, command in COMMANDS.items():
        command.add(partial(add_command, commands, name, command.run))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Errors are one line on standard error: exit code 2 for bad input, 1 for a failure."""
    os.environ["PYTHONSAFEPATH"] = "1"  # Python processes that libraries start import nothing from the current folder
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what a terminal or pipe that is not in UTF-8 cannot show is spelt out
            stream.reconfigure(errors="backslashreplace")
    usual = warnings.showwarning

    def in_one_line(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, Notice):  # for who uses the command; all others are shown as usual
            warn([message])
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = in_one_line
        return _run(arguments)


def _nobody_reads() -> bool:
    """Whether who read the standard output has closed it, as `head` does; what is left is then thrown away."""
    try:
        output = sys.stdout.fileno()
        gone, _, _ = select.select([output], [], [], 0)  # a pipe to write to is "readable" once its reader is gone
    except OSError:  # a system that asks this of sockets alone
        return False
    if not gone:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    return True


def _run(arguments: Sequence[str] | None) -> int:
    """Run one command, every error in one line; returns its exit code."""
    try:
        if wrong := mixed_up():
            raise ValueError(wrong)
        options, fields = make_parser().parse_known_args(arguments)
        if fields and not options.takes_fields:
            raise ValueError(f"unrecognised argument {fields[0]!r}; see `workbench {options.name} --help`")
        load_plugins(options.plugin)
        try:
            with shown(options.name in LONG, quiet=getattr(options, "quiet", False)):
                code = options.command(options, fields) or (INTERRUPTED if interrupted() else 0)
        except SystemExit as error:  # of a part of the user's own: the parser's has come before
            raise RuntimeError(
                f"a plugin or study ended the command (SystemExit: {error}), which is not done"
            ) from None
        sys.stdout.flush()  # so that a reader who has gone is noticed here
        return code
    except ValueError as error:
        return complain(error, BAD_INPUT)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _nobody_reads():
            return UNREAD
        bad_path = error.errno in PATH_ERRORS
        return complain(path_error(error) if bad_path else error, BAD_INPUT if bad_path else FAILED)
    except SystemExit:  # of `--help`
        raise
    except BaseException as error:  # a library in Rust that panics, or a plugin, may raise what is no `Exception`
        return complain(error if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}", FAILED)
