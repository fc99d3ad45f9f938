"""A crew of worker processes on this machine: one that dies does not stop the others."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from workbench.training.sweeps.job import Ended, Job
from workbench.training.trackers import TRACK
from workbench.util.child_processes import python
from workbench.util.messages import brief

SECONDS_BETWEEN_LOOKS = 0.05
MOST_A_CORE = 16
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def at_a_time(workers: int | None) -> int:
    """How many processes train at the same time: by default one for each core that this process may use.

    Raises:
        ValueError: if fewer than one were asked for, or so many that each would have hardly any of a core.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers is None:
        return cores
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    if workers > MOST_A_CORE * cores:
        raise ValueError(f"workers={workers} are too many for {cores} cores: give at most {MOST_A_CORE * cores}")
    return workers


@dataclass
class Workers:
    """Up to `workers` processes at a time, each of which makes one attempt, and logs for a tracker too."""

    workers: int
    track: str | None = None
    running: list[tuple[Job, subprocess.Popen[bytes], IO[bytes]]] = field(default_factory=list)
    here = True

    def at_once(self) -> int:
        return self.workers

    def has_room(self) -> bool:
        return len(self.running) < self.workers

    def start(self, job: Job) -> None:
        output = tempfile.TemporaryFile()  # noqa: SIM115  closed when the attempt has ended
        process = subprocess.Popen(
            python(__package__, str(job.folder), f"{type(job).__module__}:{type(job).__name__}"),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, **ONE_THREAD, TRACK: self.track or ""},  # never what the user's own shell may have set
            start_new_session=True,  # Ctrl-C reaches the sweep alone, which then stops its workers
        )
        self.running.append((job, process, output))
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has died already, which `ended` reports
            process.stdin.write(job.config.model_dump_json().encode() + b"\n")
            process.stdin.flush()

    def ended(self, wait: float) -> list[Ended]:
        until = time.monotonic() + wait
        while not (over := [entry for entry in self.running if entry[1].poll() is not None]):
            if time.monotonic() > until:
                return []
            time.sleep(SECONDS_BETWEEN_LOOKS)
        self.running = [entry for entry in self.running if entry not in over]
        return [_end(*entry) for entry in over]

    def stop(self) -> None:
        """Have the workers save and end; a second Ctrl-C kills them."""
        try:
            for _, process, _ in self.running:
                assert process.stdin is not None
                process.stdin.close()
            for _, process, _ in self.running:
                process.wait()
        finally:
            for entry in self.running:
                entry[1].kill()
                _end(*entry)
            self.running = []

    def close(self) -> None:
        self.stop()


def _end(job: Job, process: subprocess.Popen[bytes], output: IO[bytes]) -> Ended:
    """Wait for an attempt's process and say how it ended: its last line if it failed, or the signal that killed it."""
    code = process.wait()
    assert process.stdin is not None
    process.stdin.close()
    with output:
        output.seek(0)
        lines = output.read().decode(errors="replace").split("\n")
    if code >= 0:
        last = next((line for line in reversed(lines) if line.strip()), f"its process ended with exit code {code}")
        return Ended(job, brief(last) if code else None)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # its processes that draw batches would hold the lock
    return Ended(job, f"its process was killed by {signal.Signals(-code).name}", lost=True)
