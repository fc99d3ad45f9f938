"""A worker process that makes one fine-tuning, whose config it is given, or goes on with it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from workbench.tasks import TEXTS
from workbench.training.finetune import finetune, resume_finetune
from workbench.training.finetune_config import is_finetuning
from workbench.training.sweeps.attempt import let_it_save
from workbench.util.child_processes import work


def _fine_tune(config: dict[str, Any], folder: Path) -> None:
    torch.set_num_threads(1)  # as many fine-tunings as cores at a time, so that more threads would only wait
    if is_finetuning(folder):
        let_it_save(folder)
        if text := config.get("text"):  # which whoever runs the study has named again
            os.environ[TEXTS] = os.pathsep.join([os.environ.get(TEXTS, ""), str(Path(text).resolve().parent)])
        resume_finetune(folder, progress=False)
    else:
        finetune(config, folder, progress=False)


if __name__ == "__main__":
    work(_fine_tune)
