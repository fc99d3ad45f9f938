"""The runs under a folder as a table: to list, filter, compare and delete."""

from __future__ import annotations

import operator
import re
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.runs import CONFIG, STATES, Run, load_run, scan_runs
from workbench.runs.lock import only_writer
from workbench.runs.log import COSTS, FIGURES, RATES
from workbench.util.settings import as_text, flat_config, value_of

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}


def table(root: str | Path) -> tuple[pd.DataFrame, list[str]]:
    """A row for each run directly under a folder, ordered by name; and for each that cannot be read, why.

    Columns: `run`, `status` (`finished`, `training`, `stopped`), `step`, the latest of each of `FIGURES` (NaN where it
    was not logged), the cost (`seconds`, `tokens_per_second`, `peak_megabytes`), the attention `variants`, then every
    setting of the config under its dotted name (`task.name`, `model.n_layers`, `objectives.seq_vcr.layer`).
    """
    runs, problems = scan_runs(root)
    rows = []
    for run in runs:
        try:
            rows.append(row_of(run))
        except ValueError as error:
            problems.append(str(error))
    return pd.DataFrame(rows, columns=None if rows else ["run"]), problems


def row_of(run: Run) -> dict[str, Any]:
    """One run as a row of `table`. Raises ValueError if its log is damaged."""
    metrics, record = run.metrics(), run.record()
    latest = {name: metrics[name].dropna().tolist()[-1:] if name in metrics else [] for name in FIGURES}
    return {
        "run": run.name,
        "status": status(run),
        "step": run.step(),
        **{name: values[0] if values else float("nan") for name, values in latest.items()},
        **{name: record.get(name, float("nan")) for name in COSTS},
        "variants": " then ".join(dict.fromkeys(layer["variant"] for layer in run.config.model.attention)),
        **dict(flat_config(run.config.model_dump(mode="json"))),
    }


def status(run: Run) -> str:
    """`finished`; else `training` while a process holds the run's lock, and `stopped` if none does."""
    if run.finished:
        return "finished"
    if not (run.path / STATES / ".lock").exists():
        return "stopped"
    try:
        with only_writer(run.path):
            return "stopped"
    except (ValueError, OSError):
        return "training"


def filtered(frame: pd.DataFrame, conditions: Sequence[str]) -> pd.DataFrame:
    """The rows that meet every condition, such as `task.name=sorting`, `accuracy>0.9`, `seed!=0`.

    Raises:
        ValueError: if a condition cannot be read, or names a column that does not exist.
    """
    for condition in conditions:
        parts = re.fullmatch(r"\s*([\w.]+)\s*(<=|>=|!=|=|<|>)(?![=<>!])\s*(.*?\S)\s*", condition)
        if parts is None:
            raise ValueError(f"a condition is like task.name=sorting or accuracy>0.9, not {condition!r}")
        name, sign, text = parts.groups()
        frame = frame[[_meets(name, value, sign, text) for value in frame[check_column(frame, name)]]]
    return frame


def check_column(frame: pd.DataFrame, name: str) -> str:
    """The name, if it is a column. Raises ValueError with the eight most similar names if it is none."""
    if name not in frame:
        letters, part = set(name.lower()), name.split(".")[-1]
        similar = sorted(frame, key=lambda column: -len(letters & set(column.lower())) - 20 * (part in column))[:8]
        raise ValueError(f"no run has {name!r}; there is: {', '.join(similar)}, …")
    return name


def _meets(name: str, value: Any, sign: str, text: str) -> bool:
    """Whether a run's value meets a condition: numbers compare as numbers, all else only for equality, as text."""
    wanted = value_of(text)
    compare = OPERATORS[sign]
    if sign in ("=", "!="):
        numbers = _is_number(value) and _is_number(wanted)
        return bool(compare(value, wanted) if numbers else compare(as_text(value), text))
    if not _is_number(wanted):
        raise ValueError(f"{name}{sign}{text}: after {sign} comes a number, such as 0.9, not {text!r}")
    return _is_number(value) and bool(compare(value, wanted))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_order(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows sorted by a column; right answers and speed from high to low. Raises ValueError if no run has it."""
    if column not in frame:
        raise ValueError(f"no run has {column!r} to sort by; try accuracy, loss, seconds, seed, task.name")
    key = None if pd.api.types.is_numeric_dtype(frame[column]) else (lambda values: values.map(str))
    return frame.sort_values(column, ascending=column not in (*RATES, "tokens_per_second"), key=key)


def compare(runs: Sequence[Run]) -> pd.DataFrame:
    """How runs differ: a row for each setting that is not the same in all, then one for each figure and cost.

    Raises:
        ValueError: if there are fewer than two runs, two have one name, or a log is damaged.
    """
    names = [run.name for run in runs]
    if len(set(names)) < max(2, len(names)):
        raise ValueError(f"two or more runs of different names are compared, not {', '.join(names) or 'none'}")
    frame = pd.DataFrame([row_of(run) for run in runs]).set_index("run")
    settings = list(dict.fromkeys(name for run in runs for name, _ in flat_config(run.config.model_dump(mode="json"))))
    differ = [name for name in settings if frame[name].map(str).nunique() > 1]
    return frame[[*differ, "status", "step", *FIGURES, *COSTS]].T


@dataclass(frozen=True)
class Doomed:
    """A run folder that is to be deleted, and its size on disk."""

    path: Path
    bytes: int

    @staticmethod
    def of(path: str | Path) -> Doomed:
        """The run folder at a path. Raises ValueError if there is none, or the path is a link to one."""
        path = Path(path)
        if path.is_symlink():
            raise ValueError(f"{path} is a link; delete what it points to, or the link, yourself")
        if not (path / CONFIG).is_file():
            load_run(path)  # raises with what is wrong
        return Doomed(path, sum(p.stat().st_size for p in path.rglob("*") if p.is_file() and not p.is_symlink()))


def delete(doomed: Sequence[Doomed]) -> None:
    """Delete run folders. Raises ValueError, before any is deleted, if one is being trained."""
    with ExitStack() as locks:
        for run in doomed:
            if (run.path / STATES).is_dir():
                locks.enter_context(only_writer(run.path))
        # Renamed first: a folder that is half deleted is never taken for a run.
        hidden = [run.path.with_name(f".{run.path.name}.{secrets.token_hex(4)}") for run in doomed]
        for run, path in zip(doomed, hidden, strict=True):
            run.path.rename(path)
    for path in hidden:
        shutil.rmtree(path)
