"""One attempt at one run, and what a crew that makes attempts can do."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from workbench.runs import CONFIG, RunConfig
from workbench.training.loop import resume, train
from workbench.training.state import only_trainer
from workbench.training.sweeps.jobs import Job

SECONDS_TO_SAVE = 60.0

# What training says in one line; anything else is a mistake in the code, and shows where.
REPORTED = (ValueError, RuntimeError, OSError)


def attempt(config: RunConfig, folder: Path) -> None:
    """Train a run to its end, going on with what there is of it.

    Raises:
        ValueError, TrainingError: as `train` and `resume`.
    """
    torch.set_num_threads(1)  # as many runs at a time as there are cores: threads would only wait for each other
    if (folder / CONFIG).is_file():
        with suppress(ValueError), only_trainer(folder, wait=SECONDS_TO_SAVE):
            pass  # the worker of a sweep that was killed has saved
        resume(folder, progress=False)
    else:
        train(config, folder, progress=False)


@dataclass(frozen=True)
class Ended:
    """An attempt's end.

    Attributes:
        job: the run.
        error: what went wrong, if anything did.
        lost: the worker died, which says nothing about the run; an error of the run itself would only come again.
    """

    job: Job
    error: str | None = None
    lost: bool = False


class Crew(Protocol):
    """Whoever makes the attempts: processes on this machine, or a Ray cluster."""

    here: bool  # whether the run folders grow where they are to stay, and can be watched

    def at_once(self) -> int:
        """How many attempts can be going on at the same time."""

    def has_room(self) -> bool:
        """Whether another attempt can be handed over."""

    def start(self, job: Job) -> None:
        """Begin an attempt, or line it up."""

    def ended(self, wait: float) -> list[Ended]:
        """The attempts that ended since the last call, waiting up to so many seconds for one."""

    def stop(self) -> None:
        """End all attempts, keeping what can be kept."""

    def close(self) -> None:
        """Let go of everything."""
