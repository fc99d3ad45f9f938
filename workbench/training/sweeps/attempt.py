"""One attempt to train a run, and the interface of the crews that make attempts."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import torch

from workbench.runs import CONFIG, RunConfig
from workbench.training.loop import resume, train
from workbench.training.state import only_trainer
from workbench.training.sweeps.jobs import Job

SECONDS_TO_SAVE = 60.0

Tried = TypeVar("Tried")


def attempt(config: RunConfig, folder: Path) -> None:
    """Train a run to its end; one that was begun is resumed.

    Raises:
        ValueError, TrainingError: as `train` and `resume`.
    """
    torch.set_num_threads(1)  # as many runs as cores train at a time, so that more threads would only wait
    if (folder / CONFIG).is_file():
        let_it_save(folder)
        resume(folder, progress=False)
    else:
        train(config, folder, progress=False)


def let_it_save(folder: Path) -> None:
    """Wait for a worker of a killed sweep or study, which saves before it ends."""
    with suppress(ValueError), only_trainer(folder, wait=SECONDS_TO_SAVE):
        pass


@dataclass(frozen=True)
class Ended(Generic[Tried]):
    """The end of an attempt.

    Attributes:
        job: what was attempted, such as a run.
        error: the error of the attempt, if there was one.
        lost: whether the worker died. Such an attempt can be repeated; an error of the run itself would come again.
    """

    job: Tried
    error: str | None = None
    lost: bool = False


class Crew(Protocol):
    """The workers that make the attempts: processes on this machine, or a Ray cluster."""

    here: bool  # whether run folders are written in their final place, where their progress can be read

    def at_once(self) -> int:
        """The number of attempts that can run at the same time."""

    def has_room(self) -> bool:
        """Whether another attempt can be started."""

    def start(self, job: Job) -> None:
        """Start an attempt, or put it in the crew's queue."""

    def ended(self, wait: float) -> list[Ended[Job]]:
        """The attempts that ended since the last call; if there is none, wait for one, at most `wait` seconds."""

    def stop(self) -> None:
        """End all attempts; where that is possible, they save their state."""

    def close(self) -> None:
        """Stop all attempts and free what the crew holds."""
