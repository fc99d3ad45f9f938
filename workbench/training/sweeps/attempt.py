"""One attempt to train a run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import torch

from workbench.runs import CONFIG, RunConfig
from workbench.training.loop import resume, train
from workbench.training.state import only_trainer

SECONDS_TO_SAVE = 60.0


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
