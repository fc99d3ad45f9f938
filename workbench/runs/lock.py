"""The lock of a run folder: only one process at a time trains or deletes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from workbench.runs.folder import STATES

SECONDS_TO_LET_GO = 1.0  # the workers of a process that was killed hold its lock for a moment longer


@contextmanager
def only_writer(run: Path, wait: float = SECONDS_TO_LET_GO) -> Iterator[None]:
    """Hold the lock of a run folder within this context.

    Args:
        run: the run folder.
        wait: seconds to wait for another process that holds the lock.

    Raises:
        ValueError: if another process still holds it then.
        OSError: if the lock cannot be written.
    """
    try:
        lock = FileLock(run / STATES / ".lock", timeout=wait).acquire()
    except Timeout:
        raise ValueError(f"{run} is being trained by another process; wait for it, or stop it first") from None
    with lock:
        yield
