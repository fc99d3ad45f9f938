"""What the command line prints: results on standard output, errors in one line on standard error."""

from __future__ import annotations

import errno
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from workbench.util.messages import brief, harmless

if TYPE_CHECKING:
    from workbench.runs import Run

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
UNREAD = 141  # as a program that the closed pipe would have ended

# These errors are about a path that was given; any other, such as a full disk, is about the machine.
PATH_ERRORS = {
    errno.EACCES,
    errno.EEXIST,
    errno.EINVAL,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENODEV,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.ENOTEMPTY,
    errno.ENXIO,
    errno.EOPNOTSUPP,
    errno.EPERM,
    errno.EROFS,
}


def speaks() -> bool:
    """Whether this process prints: of several processes started by `torchrun`, only the first one does."""
    return os.environ.get("RANK", "0") == "0"


def complain(message: object, code: int) -> int:
    """Print an error in one line; returns the exit code that goes with it."""
    warn([message])
    return code


def warn(messages: Iterable[object]) -> None:
    """Print each message in one line on standard error."""
    for message in messages if speaks() else ():
        print(f"workbench: {brief(message)}", file=sys.stderr)


def announce(doing: str, to: Sequence[object], quiet: bool) -> None:
    """Say on a terminal what begins: until PyTorch is imported and there is progress to show, seconds pass."""
    if not quiet and speaks() and sys.stderr.isatty():
        first, *more = map(str, to)
        print(
            f"workbench: {doing} {brief(first)}{f' and {len(more)} more' if more else ''} …",
            file=sys.stderr,
            flush=True,
        )


def path_error(error: OSError) -> str:
    """Which path an error is about, and what is wrong with it."""
    if error.filename is None:
        return str(error)
    return f"{os.fsdecode(error.filename)}: {(error.strerror or 'cannot be used').lower()}; give another path"


def say(text: object = "") -> None:
    """Print text, whoever wrote parts of it: control characters are spelt out."""
    print("\n".join(map(harmless, str(text).split("\n"))))


def show(result: Any, options: Namespace, saves: str | None = None) -> None:
    """Print a result in words, or with `--json` as the JSON that it gives of itself.

    Args:
        result: what a command found.
        options: of the command.
        saves: what it saves in the new folder of `--out`, if there is one; None for a result that saves nothing.
    """
    say(result.json() if options.json else result.says)
    if saves is not None and options.out is not None:
        from workbench.util.files import new_folder

        with new_folder(options.out) as folder:
            result.save(folder)
        if not options.json:
            say(f"\n{saves}: {options.out}")


def say_received(run: Run) -> None:
    """What `workbench import` and `workbench pull` say of the run folder they made."""
    say(f"made {run.path}: {run.config.task['name']}, {run.config.steps} steps\nnext: workbench inspect {run.path}")
