"""The runs that paths mean: each path itself, or the runs in it if it is a folder of runs."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from workbench.runs.config import CONFIG
from workbench.runs.folder import Run, load_run, scan_runs
from workbench.util.messages import Notice


def open_runs(given: str | Path | Run | Sequence[str | Path | Run]) -> list[Run]:
    """The runs that are given, one or several: as runs, run folders, or folders of runs.

    A folder that is not a run stands for the runs directly in it; those that cannot be opened are passed over. Other
    files beside a named run are passed over too, such as a sweep's table where `sweeps/x/*` was typed. A `Notice` is
    warned of for each path that is passed over.

    Raises:
        ValueError: as `load_run`.
    """
    several = [given] if isinstance(given, str | Path | Run) else given
    opened = {run.path: run for run in several if isinstance(run, Run)}
    named = [run.path if isinstance(run, Run) else Path(run) for run in several]
    parents_of_runs = {path.parent for path in named if (path / CONFIG).is_file()}
    folders: list[Path] = []
    passed_over: list[str] = []
    for path in named:
        runs, problems = ([], []) if (path / CONFIG).is_file() or not path.is_dir() else scan_runs(path)
        if runs:
            folders += [run.path for run in runs]
            passed_over += [f"passed over, as it cannot be read: {problem}" for problem in problems]
        elif path.exists() and path.parent in parents_of_runs and not (path / CONFIG).exists():
            passed_over.append(f"passed over, as it is no run folder: {path}")
        else:
            folders.append(path)  # of which `load_run` says what is wrong with it
    for line in passed_over:
        warnings.warn(line, Notice, stacklevel=3)
    return [opened.get(folder) or load_run(folder) for folder in folders]
