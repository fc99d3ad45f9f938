"""The status of each run of a sweep, and the table of results, `results.parquet`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.runs import Run, RunConfig, load_run
from workbench.runs.folder import FIGURES
from workbench.training.sweeps.plan import RESULTS, Plan, Planned
from workbench.util.files import write_atomically
from workbench.util.settings import as_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Job:
    """One run of a sweep, its status and progress."""

    planned: Planned
    folder: Path
    status: Literal["waiting", "running", "finished", "failed"] = "waiting"
    attempts: int = 0
    lost: int = 0
    error: str | None = None
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.planned.name

    def order(self) -> str:
        """What a worker process is told, as one line of JSON."""
        return self.planned.config.model_dump_json()

    @property
    def run(self) -> Run:
        """The run folder, which may not exist yet, and to which a worker may be writing."""
        return Run(self.folder, self.planned.config)

    @property
    def step(self) -> int:
        return int(self.figures["step"])

    @property
    def steps(self) -> int:
        return self.planned.config.steps

    def look(self) -> None:
        """Read the run's latest figures from its folder."""
        latest = self.run.latest()
        self.figures = {name: latest.get(name, math.nan) for name in (*FIGURES, "seconds")}
        self.figures["step"] = int(latest.get("step", 0))

    def row(self) -> dict[str, Any]:
        """The run's row in the results."""
        status = self.status if self.status in ("finished", "failed") else "unfinished"
        row = {"run": self.name, "variant": self.planned.variant, **self.planned.choice}
        row |= {"seed": self.planned.config.seed, "status": status, "step": self.step, "steps": self.steps}
        row |= {name: self.figures[name] for name in (*FIGURES, "seconds")}
        return row | {"attempts": self.attempts, "error": self.error}


def survey(plan: Plan, out: Path) -> list[Job]:
    """A job for each run of a plan, with its status and progress in a folder.

    Raises:
        ValueError: in one line, if a run's folder holds another run, or something damaged.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; give another folder with --out")
    before = _attempts(out / RESULTS)
    jobs = []
    for planned in plan.runs:
        job = Job(planned, out / planned.name, attempts=before.get(planned.name, 0))
        if job.folder.exists() and (not job.folder.is_dir() or any(job.folder.iterdir())):
            run = load_run(job.folder)
            if run.config != planned.config:
                raise ValueError(
                    f"{job.folder} holds another run: {_difference(run.config, planned.config)}; move it "
                    f"away first, or choose another folder"
                )
            job.status = "finished" if run.finished else "waiting"
        job.look()
        jobs.append(job)
    return jobs


def results(jobs: Sequence[Job]) -> pd.DataFrame:
    """The results as a table: one row for each run."""
    import pandas as pd

    frame = pd.DataFrame([job.row() for job in jobs])
    for name in {name for job in jobs for name in job.planned.choice}:
        # A column of a Parquet file has one type: mixed values become text.
        values = [job.planned.choice.get(name) for job in jobs]
        kinds = {type(value) for value in values if value is not None}
        if not (kinds <= {int, float} or kinds in ({bool}, {str})):
            frame[name] = [None if value is None else as_text(value) for value in values]
    return frame.astype({"error": "string"})


def write_results(jobs: Sequence[Job], out: Path) -> pd.DataFrame:
    """Write the results, unless the file holds them already."""
    frame, path = results(jobs), out / RESULTS
    content = frame.to_parquet(index=False)
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
    return frame


def _attempts(path: Path) -> dict[str, int]:
    """The number of attempts at each run in earlier sweeps; empty if the results are missing or damaged."""
    if not path.exists():
        return {}
    import pandas as pd
    import pyarrow as pa

    try:
        frame = pd.read_parquet(path, columns=["run", "attempts"])
    except (OSError, ValueError, pa.ArrowException):
        return {}
    return dict(zip(frame["run"], map(int, frame["attempts"]), strict=True))


def _difference(existing: RunConfig, planned: RunConfig) -> str:
    """The first setting that differs between the config on disk and the sweep's, in words."""

    def differ(name: str, had: Any, has: Any) -> str:
        if isinstance(had, Mapping) and isinstance(has, Mapping):
            inner = next(key for key in {**has, **had} if had.get(key) != has.get(key))
            return differ(f"{name}.{inner}", had.get(inner), has.get(inner))
        return f"its {name.removeprefix('.')} is {had!r}, and the sweep says {has!r}"

    return differ("", existing.model_dump(mode="json"), planned.model_dump(mode="json"))
