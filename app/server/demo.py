"""One training run that the explorer starts: the command line's own, in a process beside the server."""

from __future__ import annotations

import atexit
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import IO

import streamlit as st

from workbench.inspection.learning_curves import learning_curves
from workbench.runs import load_run
from workbench.training import PRESETS, SECONDS
from workbench.util.child_processes import python
from workbench.util.messages import brief

QUICK = 120  # seconds: presets that take longer are left to the command line
OFFERED = {name: seconds for name, seconds in SECONDS.items() if name in PRESETS and seconds <= QUICK}
CHECKPOINTS = 20
EVALUATIONS = 20
MOST_STEPS = 20_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
TAIL = 10_000  # bytes of the console that are read


def place(root: Path, name: str) -> Path:
    """The folder of a run of this name, directly under the root.

    Raises:
        ValueError: if this cannot be a run's name, or is taken.
    """
    if not NAME.fullmatch(name):
        raise ValueError(
            "a name has only letters, digits, - _ and ., starts with a letter, a digit or _, and is at most 64 long"
        )
    path = root.resolve() / name
    if path.exists() or path.is_symlink():
        raise ValueError(f"there is a {name} already; give another name")
    return path


def free_name(root: Path, wanted: str) -> str:
    """The wanted name, with a number behind it if it is taken."""
    taken = {path.name for path in root.iterdir()} if root.is_dir() else set()
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def arguments(path: Path, preset: str, steps: int, seed: int) -> list[str]:
    """What `workbench` is called with: checkpoints for the Training page, evaluations for a smooth curve."""
    more = {
        "out": path,
        "steps": steps,
        "seed": seed,
        "checkpoint_count": CHECKPOINTS,
        "eval_every": max(1, steps // EVALUATIONS),
    }
    return ["train", preset, *(part for name, value in more.items() for part in (f"--{name}", str(value)))]


@dataclass
class Progress:
    """The progress of a demo run.

    Attributes:
        step: the last that was logged.
        losses, accuracies: what was logged up to it.
        left: seconds that are left at the pace so far; None before the first step is logged.
    """

    step: int = 0
    losses: list[float] = field(default_factory=list)
    accuracies: list[float] = field(default_factory=list)
    left: int | None = None


@dataclass
class Demo:
    """A run that the explorer started.

    Attributes:
        path: its folder.
        steps: how many training steps it will take.
        process: the process that trains it.
        console: its standard error, in a file without a name.
        stopped: whether it was asked to stop.
    """

    path: Path
    steps: int
    process: subprocess.Popen[bytes]
    console: IO[bytes]
    stopped: bool = False

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def failure(self) -> str | None:
        """Why the training failed, in one line; None if it still runs, was stopped, or succeeded."""
        if self.running or self.stopped or self.process.returncode == 0:
            return None
        lines = [line for line in self.console_tail().splitlines() if line.strip()]
        return brief(lines[-1].removeprefix("workbench: ") if lines else f"exit code {self.process.returncode}")

    def console_tail(self) -> str:
        """The end of what the trainer wrote to its standard error."""
        size = os.fstat(self.console.fileno()).st_size
        return os.pread(self.console.fileno(), TAIL, max(0, size - TAIL)).decode(errors="replace")

    def progress(self) -> Progress:
        """The progress, from the run's own log."""
        try:
            run = load_run(self.path)
            curves, log = learning_curves(run), run.metrics()
        except ValueError:  # its folder is not there yet
            return Progress()
        losses, accuracies = (curves[name].values.tolist() if name in curves else [] for name in ("loss", "accuracy"))
        step = max((curve.coords["step"][-1] for curve in curves.values() if len(curve.values)), default=0)
        left = None
        if step and "seconds" in log and not log["seconds"].dropna().empty:
            left = round(log["seconds"].dropna().iloc[-1] / step * (self.steps - step))
        return Progress(step, losses, accuracies, left)

    def stop(self) -> None:
        """Ask it to end after the current step; what was trained is kept."""
        if self.running:
            self.stopped = True
            self.process.terminate()


class Slot:
    """The server's place for one demo run, whoever asks for it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.demo: Demo | None = None

    def start(self, root: Path, name: str, preset: str, steps: int, seed: int) -> None:
        """Start training in a process.

        Raises:
            ValueError: if one is running already, the name is impossible or taken, or there is no such quick preset.
        """
        with self.lock:
            if self.demo is not None and self.demo.running:
                raise ValueError(f"{self.demo.path.name} is being trained; one at a time")
            if preset not in OFFERED or not 1 <= steps <= MOST_STEPS:
                raise ValueError(f"there is no demo of {preset!r} with {steps} steps")
            path = place(root, name)
            console = tempfile.TemporaryFile()  # noqa: SIM115 (it is read for as long as the run is shown)
            process = subprocess.Popen(
                python("workbench.cli.child", *arguments(path, preset, steps, seed)),
                stdin=subprocess.PIPE,  # that it ends with the server
                stdout=subprocess.DEVNULL,
                stderr=console,
            )
            self.demo = Demo(path, steps, process, console)

    def end(self) -> None:
        """Stop training when the server ends."""
        if self.demo is not None:
            self.demo.stop()


@st.cache_resource(show_spinner=False)
def slot() -> Slot:
    """The only one of this server."""
    made = Slot()
    atexit.register(made.end)
    return made
