"""The files that a shared run may consist of, their number and sizes: checked by name before any file is opened."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from workbench.runs import CHECKPOINTS, CONFIG, METRICS, WEIGHTS
from workbench.util.messages import brief

README = "README.md"
REQUIRED = (CONFIG, METRICS, WEIGHTS)
MAX_BYTES = 2_000_000_000  # of all files together; a zip of more would need the format's 64-bit extension
MAX_BYTES_OF = {CONFIG: 2**20, README: 2**20, METRICS: 2**26}
MAX_FILES = 10_000

_CHECKPOINT = re.compile(rf"{CHECKPOINTS}/step-(0|[1-9][0-9]{{0,11}})\.safetensors")
LONGEST_MESSAGE = 500  # characters


def allowed(name: str) -> bool:
    """Whether a shared run may hold a file of this name: its path in the run, with forward slashes."""
    return name in (*REQUIRED, README) or _CHECKPOINT.fullmatch(name) is not None


def accept(files: Iterable[tuple[str, int]]) -> None:
    """Check the names and sizes of the files of a run.

    Args:
        files: the name and size of each file; nothing more is read from it after the first file that is refused.

    Raises:
        ValueError: if a name is not one of a run's files or is there twice, a file is missing, or there are too many
            files or bytes.
    """
    seen: set[str] = set()
    total = 0
    for name, size in files:
        if not allowed(name):
            raise ValueError(
                f"it holds {name[:80]!r}; a shared run holds {', '.join(REQUIRED)}, "
                f"{CHECKPOINTS}/step-N.safetensors and {README}, and nothing else"
            )
        if name in seen:
            raise ValueError(f"it holds {name} twice")
        seen.add(name)
        total += size
        if size > (limit := MAX_BYTES_OF.get(name, MAX_BYTES)):
            raise ValueError(f"its {name} has {size:,} bytes, more than the {limit:,} that it may have")
        if total > MAX_BYTES or len(seen) > MAX_FILES:
            raise ValueError(f"it holds more than {MAX_BYTES:,} bytes or {MAX_FILES:,} files")
    missing = [name for name in REQUIRED if name not in seen]
    if missing:
        raise ValueError(f"it has no {missing[0]} at its top; `workbench export RUN OUT` makes what can be imported")


@contextmanager
def refusing(source: object, folder: Path | None = None) -> Iterator[None]:
    """Turn every error about data from elsewhere into a ValueError of one printable line.

    Damaged data can make a library raise any error; only errors about this machine, such as a full disk, pass.

    Args:
        source: the name of the data for the message.
        folder: the temporary folder of the data, which is left out of the message.
    """
    try:
        yield
    except Exception as error:
        of_this_machine = isinstance(error, OSError) and error.errno != errno.EINVAL  # a seek to before the beginning
        if of_this_machine or isinstance(error, MemoryError):
            raise
        reason = str(error) or type(error).__name__
        reason = reason if folder is None else reason.replace(f"{folder}{os.sep}", "")
        raise ValueError(brief(f"{source} is refused: {reason}", LONGEST_MESSAGE)) from None
