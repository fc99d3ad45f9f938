"""Runs that another study has trained already with the same config are taken over, not trained again."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from workbench.runs import load_run
from workbench.runs.weights import WEIGHTS
from workbench.training.sweeps.plan import Planned
from workbench.util.files import new_folder


def take_over(planned: Iterable[Planned], folder: Path, others: Iterable[Path]) -> None:
    """Copy into a folder each run that is missing there and that one of the other folders holds, finished.

    Only a run of exactly the same config is taken: the same seed, and logged and checkpointed as often.

    Args:
        planned: the runs that the folder is to hold.
        folder: of the run folders.
        others: folders with run folders of other sweeps.
    """
    missing = {one.config.model_dump_json(): one.name for one in planned if not (folder / one.name).exists()}
    elsewhere = (path for other in others if other != folder for path in sorted(other.glob(f"[!.]*/{WEIGHTS}")))
    for weights in elsewhere:
        if not missing:
            return
        try:
            config = load_run(weights.parent).config.model_dump_json()
        except ValueError:  # a damaged run is nothing to take over
            continue
        if (name := missing.pop(config, None)) is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with new_folder(folder / name) as copy:
                shutil.copytree(weights.parent, copy, dirs_exist_ok=True)
