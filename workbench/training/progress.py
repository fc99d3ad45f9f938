"""A progress bar with loss, accuracy and time left; plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from workbench.util.messages import brief
from workbench.util.progress import time_left

SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """The progress of training on standard error; use as a context.

    Args:
        steps: the steps of the run.
        show: whether anything is shown.
        first: the step at which a resumed run begins.
        every: the seconds between two lines, where there is no terminal.
    """

    def __init__(self, steps: int, show: bool, first: int = 0, every: float = SECONDS_BETWEEN_LINES) -> None:
        self.steps, self.first, self.every = steps, first, every
        self.console = Console(stderr=True, quiet=not show, markup=False)
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (show and self.console.is_terminal),
        )
        self.started = self.last_line = time.perf_counter()

    def __enter__(self) -> Progress:
        self.bar.start()
        self.id = self.bar.add_task("training", total=self.steps, completed=self.first, figures="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Show the step just finished and the latest figures."""
        text = "  ".join(
            f"{name} {value:.1%}" if name == "accuracy" else f"{name} {value:.4f}" for name, value in figures.items()
        )
        self.bar.update(self.id, completed=step, figures=text)
        now = time.perf_counter()
        if not self.console.is_terminal and (now - self.last_line > self.every or step == self.steps):
            self.last_line = now
            left = (now - self.started) / max(1, step - self.first) * (self.steps - step)
            self.console.print(f"step {step}/{self.steps}  {text}  {time_left(left)}", highlight=False)

    def say(self, text: str) -> None:
        """Print a line, whoever wrote parts of it."""
        self.console.print(brief(text), highlight=False)
