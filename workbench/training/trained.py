"""What is trained into a folder, a run or a fine-tuning: its log, its figures and its states."""

from __future__ import annotations

import json
import math
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

import torch

from workbench import runs
from workbench.training.distributed import Processes
from workbench.training.hint_mixing import Batches
from workbench.training.optimizer_step import OptimizerStep
from workbench.training.state import Figures, Learner
from workbench.util.distribution import commit, version
from workbench.util.memory import check_memory

SHOWN = ("loss", "accuracy")  # by the progress bar
PACKAGES = ("torch", "transformer-lens", "numpy", "safetensors")  # whose versions the log has


class Trained(ABC):
    """What is trained into a folder: a run, by itself or in a stack, or a fine-tuning.

    Attributes:
        config: its schedule, and how often it is logged, evaluated and saved.
        path: its folder.
        processes: those that train it.
        learner: everything that changes while it trains.
        log: its log while it trains; None in a process that does not write.
        done: whether its training has ended, at its last step, by early stopping or by a failure.
        shown: the latest figures, for the progress bar.
    """

    learner: Learner

    def __init__(self, config: Any, path: Path, processes: Processes) -> None:
        self.config, self.path, self.processes = config, path, processes
        self.log: _Log | None = None
        self.done, self.shown = False, dict[str, float]()

    @abstractmethod
    def create(self) -> None:
        """Make its folder. Raises ValueError if the path is taken, TrainingError if the disk is full."""

    @abstractmethod
    def batches(self) -> Iterator[Batches]:
        """The batches of the steps that are left."""

    @abstractmethod
    def optimizer_step(self) -> OptimizerStep:
        """Its optimizer step, where it trains by itself."""

    @abstractmethod
    def evaluate(self) -> dict[str, float]:
        """Figures of what is held out; empty in a process that does not write."""

    @abstractmethod
    def finish(self) -> None:
        """End training: write what was trained, and delete the states."""

    def noted(self) -> Mapping[str, str]:
        """What a state says of the config of a run (`runs.noted`)."""
        return {}

    @contextmanager
    def begin(self, problems: Sequence[str] = (), resumed: bool = False) -> Iterator[None]:
        """Open the log within this context.

        Args:
            problems: damaged states that were passed over, each in a line.
            resumed: whether training goes on.
        """
        with _Log(self.path / runs.METRICS) if self.processes.main else nullcontext() as self.log:
            resumed_at = {"step": self.learner.step, "problems": list(problems)} if resumed else {}
            if self.log is not None:
                # With versions of packages, the workbench's git commit (None outside a checkout), and the machine.
                versions = {"python": platform.python_version(), "workbench": version()}
                for package in PACKAGES:
                    with suppress(PackageNotFoundError):  # a machine that only trains need not have TransformerLens
                        versions[package] = version_of(package)
                device, processor = self.processes.device, platform.processor() or platform.machine()
                machine = {
                    "versions": versions,
                    "commit": commit(),
                    "device": str(device),
                    "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else processor,
                    "threads": torch.get_num_threads(),
                    "processes": self.processes.count,
                }
                self.log.write({"event": "resumed" if resumed else "started", **resumed_at, **machine})
            yield

    def write(self, row: Mapping[str, Any]) -> None:
        """Write a line of the log, in the process that does."""
        if self.log is not None:
            self.log.write(row)

    def record(self, figures: Figures, batches: Batches, seconds: float) -> None:
        """Count a finished step; where the config says so, log it and evaluate.

        Args:
            figures: the loss and what else the step measured.
            batches: what it trained on.
            seconds: the wall time so far.
        """
        config, learner = self.config, self.learner
        learner.count(figures, sum(batch.tokens.numel() for batch in batches), seconds)
        last = learner.step == config.steps
        row: dict[str, float] = {}
        if learner.step % config.log_every == 0 or last or learner.step == 1:
            # Averaged over the processes; those of steps that float16 skipped may not be finite.
            means = self.processes.means(learner.figures)
            row = {name: mean for name, mean in means.items() if math.isfinite(mean)}
        if learner.step % config.eval_every == 0 or last:
            row |= self.evaluate()
        if row and self.log is not None:
            self.shown.update({name: row[name] for name in SHOWN if name in row})
            self.write_row(row)

    def write_row(self, row: dict[str, float]) -> None:
        """Write the figures of a step to the log."""
        self.write({"step": self.learner.step, "seconds": round(self.learner.seconds, 3), **row})

    def save(self) -> None:
        """Write the whole state, from which training can be resumed."""
        self.learner.look()
        if self.log is not None:
            self.log.sync()
        self.learner.save(self.path, self.processes, self.noted())

    def fail(self) -> str:
        """End because the loss is not finite; returns why, and what was kept, in a line."""
        self.save()
        self.done = True
        step, rate = self.learner.step, self.config.learning_rate
        return (
            f"the loss or its gradient is not finite at step {step + 1}; the weights of step {step} are saved in "
            f"{self.path}; try a lower learning_rate than {rate:g}"
        )


class _Log:
    """An open metrics.jsonl. A last line that a kill cut short is removed when the file is opened."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        check_memory(os.fstat(self.file).st_size, str(path))
        written = path.read_bytes()
        os.ftruncate(self.file, written.rfind(b"\n") + 1)
        os.lseek(self.file, 0, os.SEEK_END)

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.file)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a line. Raises OSError, with the file's name, if the disk is full."""
        line = (json.dumps(row) + "\n").encode()
        try:
            while line:
                line = line[os.write(self.file, line) :]
        except OSError as error:
            error.filename = str(self.path)
            raise

    def sync(self) -> None:
        """Make sure that what was written survives a power cut."""
        os.fsync(self.file)
