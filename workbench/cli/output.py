"""What the command line says: results on standard output, errors in one line on standard error."""

from __future__ import annotations

import os
import sys

from workbench.validation import brief, harmless

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


def speaks() -> bool:
    """Whether this process is the one of those that `torchrun` started that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def complain(message: object, code: int) -> int:
    if speaks():
        print(f"workbench: {brief(message)}", file=sys.stderr)
    return code


def say(text: object = "") -> None:
    """Print text that strangers may have had a hand in."""
    print("\n".join(map(harmless, str(text).split("\n"))))
