"""Which run folders are meant where several are named: those themselves, and all that a folder of runs holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workbench.runs.folder import CONFIG, scan_runs


def run_folders(paths: Sequence[str | Path]) -> tuple[list[Path], list[str]]:
    """The run folders that are meant, in order, and in a line each what was passed over.

    A folder that is no run stands for the runs directly in it, of which those that cannot be opened are passed over. So
    is what lies beside runs that were named with it, as a sweep's table does where `sweeps/x/*` was typed. Anything
    else is left in, for `load_run` to say what is wrong with it.
    """
    named = [Path(path) for path in paths]
    beside = {path.parent for path in named if (path / CONFIG).is_file()}
    found: list[Path] = []
    passed_over: list[str] = []
    for path in named:
        inside, problems = ([], []) if (path / CONFIG).is_file() or not path.is_dir() else scan_runs(path)
        if inside:
            found += [run.path for run in inside]
            passed_over += [f"passed over, as it cannot be read: {problem}" for problem in problems]
        elif path.exists() and path.parent in beside and not (path / CONFIG).exists():
            passed_over.append(f"passed over, as it is no run folder: {path}")
        else:
            found.append(path)
    return found, passed_over
