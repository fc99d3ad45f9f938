"""The progress of jobs on standard error: a live table, or plain lines if it is not a terminal."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from workbench.training.sweeps.job import Crew, Job
from workbench.util.messages import brief
from workbench.util.progress import time_left

SECONDS_BETWEEN_LOOKS = 1.0
MOST_ROWS = 20


class Board:
    """The progress display of the jobs of a sweep or study."""

    def __init__(self, jobs: Sequence[Job], crew: Crew, show: bool) -> None:
        self.jobs, self.crew = jobs, crew
        self.console = Console(stderr=True, quiet=not show, markup=False)
        self.live = Live(console=self.console, auto_refresh=False) if show and self.console.is_terminal else None
        self.started = self.looked = time.monotonic()
        self.before = sum(job.step for job in jobs)

    def __enter__(self) -> Board:
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.update(self.totals(), refresh=True)
            self.live.stop()

    def ended(self, job: Job) -> None:
        """Report a run that has finished or failed."""
        if job.status == "failed":
            self.say(f"{job.name} failed: {job.error}")
        elif not self.live:
            self.say(f"{job.name} finished: {_figures(job)}; {self.totals()}")

    def say(self, text: str) -> None:
        """Print a line, whoever wrote parts of it."""
        self.console.print(brief(text), highlight=False, soft_wrap=True)

    def update(self) -> None:
        """Redraw the table, at most once a second."""
        if not self.live or time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return
        running = [job for job in self.jobs if job.status == "running"] if self.crew.here else []
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for job in running:
            with suppress(ValueError):  # a damaged log is reported when the attempt ends
                job.look()
        for job in running[:MOST_ROWS]:
            table.add_row(job.name, f"{job.step}/{job.steps}", _figures(job))
        self.live.update(Group(self.totals(), table), refresh=True)
        self.looked = time.monotonic()

    def totals(self) -> str:
        count = Counter(job.status for job in self.jobs)
        # A cluster may not have started all the attempts that it was given.
        running = min(count["running"], self.crew.at_once())
        waiting = count["waiting"] + count["running"] - running
        done = f"{count['finished']} of {len(self.jobs)} finished"
        return f"{done}, {count['failed']} failed, {running} running, {waiting} waiting{self._left()}"

    def _left(self) -> str:
        done = sum(job.step for job in self.jobs) - self.before
        left = sum(job.steps - job.step for job in self.jobs if job.status in ("running", "waiting"))
        if done <= 0 or not left:
            return ""
        return f", {time_left((time.monotonic() - self.started) / done * left)}"


def _figures(job: Job) -> str:
    shown = {"accuracy": "accuracy {:.1%}", "loss": "loss {:.4f}", "seconds": "{:.0f} s"}
    figures = [text.format(job.figures[name]) for name, text in shown.items() if not math.isnan(job.figures[name])]
    return "  ".join(figures)
