"""A job: what a process of its own is given to do; and the interface of the crews of such processes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from workbench.runs.log import FIGURES
from workbench.training.state import only_trainer

SECONDS_TO_SAVE = 60.0


@dataclass
class Job(ABC):
    """A function of a spec that leaves a folder: the training of a run, or a fine-tuning.

    Attributes:
        config: the spec, a pydantic model with the `steps` to make and the `device` to make them on.
        folder: what it leaves.
        status: how far it is.
        attempts: how many were made.
        lost: how many of them were lost with their process.
        error: why it failed.
        figures: the latest value of each figure in the folder's log, NaN where there is none.
    """

    config: Any
    folder: Path
    _: KW_ONLY
    status: Literal["waiting", "running", "finished", "failed"] = "waiting"
    attempts: int = 0
    lost: int = 0
    error: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    @abstractmethod
    def work(spec: Any, folder: Path) -> None:
        """Do it, in the process that is given it; go on with what was begun.

        Args:
            spec: the config as JSON has it.
            folder: what to leave.

        Raises:
            ValueError, RuntimeError, OSError: in one line.
        """

    @staticmethod
    def let_it_save(folder: Path) -> None:
        """Wait for a worker of a killed sweep or study, which saves before it ends."""
        with suppress(ValueError), only_trainer(folder, wait=SECONDS_TO_SAVE):
            pass

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether the folder holds the end of it."""

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError in one line if the folder, which is not empty, holds something else, or is damaged."""

    @abstractmethod
    def receive(self, folder: Path) -> None:
        """Take over what came back from another machine. Raises ValueError if it is damaged, or something else."""

    @abstractmethod
    def latest(self) -> Mapping[str, Any]:
        """The latest value of each figure that was logged. Raises ValueError if the log is damaged."""

    def inputs(self) -> Mapping[str, Path]:
        """Fields of the config that name a file or folder of this machine, which another machine is to be sent."""
        return {}

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def step(self) -> int:
        return int(self.figures["step"])

    @property
    def steps(self) -> int:
        return int(self.config.steps)

    def look(self) -> None:
        """Read the latest figures from the folder, which may not exist yet, and to which a process may be writing."""
        latest = self.latest()
        self.figures = {name: latest.get(name, math.nan) for name in (*FIGURES, "seconds")}
        self.figures["step"] = int(latest.get("step", 0))

    def survey(self) -> None:
        """Set the status and figures by what is in the folder. Raises ValueError as `check`."""
        if self.folder.exists() and (not self.folder.is_dir() or any(self.folder.iterdir())):
            self.check()
            self.status = "finished" if self.finished else "waiting"
        self.look()


@dataclass(frozen=True)
class Ended:
    """The end of an attempt.

    Attributes:
        job: what was attempted.
        error: the error of the attempt, if there was one.
        lost: whether the worker died. Such an attempt can be repeated; an error of the job itself would come again.
    """

    job: Job
    error: str | None = None
    lost: bool = False


class Crew(Protocol):
    """The workers that make the attempts: processes on this machine, or a Ray cluster."""

    here: bool  # whether folders are written in their final place, where their progress can be read

    def at_once(self) -> int:
        """The number of attempts that can run at the same time."""

    def has_room(self) -> bool:
        """Whether another attempt can be started."""

    def start(self, job: Job) -> None:
        """Start an attempt, or put it in the crew's queue."""

    def ended(self, wait: float) -> list[Ended]:
        """The attempts that ended since the last call; if there is none, wait for one, at most `wait` seconds."""

    def stop(self) -> None:
        """End all attempts; where that is possible, they save their state."""

    def close(self) -> None:
        """Stop all attempts and free what the crew holds."""
