"""The command line. Each command imports the libraries it needs, and no other."""

from __future__ import annotations

import os
from collections.abc import Sequence

from workbench.cli import commands
from workbench.cli.fields import parse_fields
from workbench.cli.output import BAD_INPUT, FAILED, INTERRUPTED, OF_A_PATH, complain, in_words
from workbench.cli.parser import make_parser

__all__ = ["main", "parse_fields"]

TAKE_FIELDS = (commands.train, commands.data, commands.compile_model, commands.inspect, commands.probe)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Errors are one line on standard error: exit code 2 for bad input, 1 for a failure."""
    os.environ["PYTHONSAFEPATH"] = "1"  # Python processes that libraries start import nothing from the current folder
    try:
        options, fields = make_parser().parse_known_args(arguments)
        if fields and options.command not in TAKE_FIELDS:
            raise ValueError(f"unrecognised argument {fields[0]!r}; see `workbench {options.name} --help`")
        return options.command(options, fields) or 0
    except ValueError as error:
        return complain(error, BAD_INPUT)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    except OSError as error:
        bad_path = error.errno in OF_A_PATH
        return complain(in_words(error) if bad_path else error, BAD_INPUT if bad_path else FAILED)
    except Exception as error:
        return complain(error if isinstance(error, RuntimeError) else f"{type(error).__name__}: {error}", FAILED)
