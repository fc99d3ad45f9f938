"""Resuming whatever was stopped: a run, a stack of seeds, or a fine-tuning."""

from __future__ import annotations

from pathlib import Path

from workbench.runs import Run
from workbench.runs.model_run import FINETUNE
from workbench.training import loop
from workbench.training.finetune import resume_finetune
from workbench.training.finetune_config import Finetuned
from workbench.training.resume_seed_stack import resume_seeds, stacked


def resume(path: str | Path | Run, *, progress: bool = True, track: str | None = None) -> Run | list[Run] | Finetuned:
    """Go on with what was stopped or killed, from its last whole state; what is finished is left as it is.

    Args:
        path: a run or its folder (see `training.resume`); the folder of a stack of seeds, which gives all its runs
            (see `training.resume_seeds`); or a folder that is being fine-tuned (see `training.finetune`).
        progress, track: as of `train`; a fine-tuning has its own log alone.

    Raises:
        ValueError, TrainingError: as these functions.
    """
    folder = path.path if isinstance(path, Run) else Path(path)
    if (folder / FINETUNE).is_file():
        if track:
            raise ValueError("track is of runs that `workbench train` makes; leave it out")
        return resume_finetune(folder, progress=progress)
    go_on = resume_seeds if stacked(folder) else loop.resume
    return go_on(folder, progress=progress, track=track)
