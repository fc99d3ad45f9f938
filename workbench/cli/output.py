"""What the command line says: results on standard output, errors in one line on standard error."""

from __future__ import annotations

import os
import sys

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


def speaks() -> bool:
    """Whether this process is the one of those that `torchrun` started that writes and prints."""
    return os.environ.get("RANK", "0") == "0"


def complain(message: object, code: int) -> int:
    if speaks():
        print(f"workbench: {' '.join(str(message).split())}", file=sys.stderr)
    return code
