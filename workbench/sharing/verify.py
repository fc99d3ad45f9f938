"""Verification of a run folder that anyone may have written: all of it is read, sizes before memory is taken."""

from __future__ import annotations

from pathlib import Path

from workbench.runs import CHECKPOINTS, CONFIG, LONGEST_CONFIG, METRICS, WEIGHTS, Run, load_run
from workbench.sharing.contents import refuse_tasks_with_files
from workbench.util.files import read_metadata, read_object

MAX_ROWS, MAX_CELLS = 1_000_000, 20_000_000


def verify(folder: Path) -> Run:
    """Open a run from a stranger and read all of it.

    Nothing is unpickled, imported or executed; names in the config are looked up in the workbench's own tables.

    Raises:
        ValueError: if it is not a whole run; a library may raise any other error (see `contents.refusing`).
    """
    refuse_tasks_with_files(read_object(folder / CONFIG, LONGEST_CONFIG).get("task"), "it")
    run = load_run(folder)
    run.model()
    _check_step(folder / WEIGHTS, run.step())
    for step in run.checkpoints():
        run.model(step)
        _check_step(folder / CHECKPOINTS / f"step-{step}.safetensors", step)
    _check_metrics(run)
    return run


def _check_step(path: Path, step: int) -> None:
    saved_at = read_metadata(path).get("step")
    if saved_at != str(step):
        raise ValueError(f"{path.name} says that it was saved at step {saved_at!r}")


def _check_metrics(run: Run) -> None:
    """Raise ValueError if the log has too many lines, or would become a table of too many cells."""
    if (run.path / METRICS).read_bytes().count(b"\n") > MAX_ROWS:
        raise ValueError(f"{METRICS} has more than {MAX_ROWS:,} lines")
    columns = set[str]()
    for number, row in enumerate(run.log(), 1):
        columns.update(row)
        if len(columns) * number > MAX_CELLS:
            raise ValueError(f"{METRICS} is a table of more than {MAX_CELLS:,} cells")
