"""The lock of a run folder: one process at a time trains or deletes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from workbench.runs.folder import STATES

SECONDS_TO_LET_GO = 1.0  # for a process that was killed, whose workers hold its lock for a moment longer


@contextmanager
def only_writer(run: Path, wait: float = SECONDS_TO_LET_GO) -> Iterator[None]:
    """Hold the run folder, waiting up to so many seconds for whoever holds it.

    Raises:
        ValueError: if another process that lives holds it.
        OSError: if the lock cannot be written.
    """
    try:
        lock = FileLock(run / STATES / ".lock", timeout=wait).acquire()
    except Timeout:
        raise ValueError(f"{run} is being trained by another process; wait for it, or stop it first") from None
    with lock:
        yield
