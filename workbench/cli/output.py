"""What the command line says: results on standard output, errors in one line on standard error."""

from __future__ import annotations

import errno
import os
import sys

from workbench.util.messages import brief, harmless

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130

# What is wrong with a path that was given; anything else, such as a full disk, is the machine's.
OF_A_PATH = {
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
    """Whether this process is the one of those that `torchrun` started that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def complain(message: object, code: int) -> int:
    if speaks():
        print(f"workbench: {brief(message)}", file=sys.stderr)
    return code


def in_words(error: OSError) -> str:
    """Which path, and what is wrong with it."""
    if error.filename is None:
        return str(error)
    return f"{os.fsdecode(error.filename)}: {(error.strerror or 'cannot be used').lower()}; give another path"


def say(text: object = "") -> None:
    """Print text that strangers may have had a hand in."""
    print("\n".join(map(harmless, str(text).split("\n"))))
