"""The runs of a sweep as they stand, and the Parquet that says so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa

from workbench.runs import Run, RunConfig, load_run
from workbench.training.sweeps.plan import Plan, Planned
from workbench.util.files import write_atomically
from workbench.util.settings import as_text

RESULTS = "results.parquet"


@dataclass
class Job:
    """One run of a sweep, and how far it is."""

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

    @property
    def run(self) -> Run:
        """Its run folder, which need not be there, and which a worker may be writing to."""
        return Run(self.folder, self.planned.config)

    @property
    def step(self) -> int:
        return int(self.figures["step"])

    @property
    def steps(self) -> int:
        return self.planned.config.steps

    def look(self) -> None:
        """Read the run's latest figures from its folder."""
        metrics = self.run.metrics()
        latest = {name: metrics[name].dropna().iloc[-1:].tolist() for name in metrics}
        self.figures = {name: (latest.get(name) or [math.nan])[0] for name in ("accuracy", "loss", "seconds")}
        self.figures["step"] = int((latest.get("step") or [0])[0])

    def row(self) -> dict[str, Any]:
        """What the results say of it."""
        status = self.status if self.status in ("finished", "failed") else "unfinished"
        row = {"run": self.name, "variant": self.planned.variant, **self.planned.choice}
        row |= {"seed": self.planned.config.seed, "status": status, "step": self.step, "steps": self.steps}
        row |= {name: self.figures[name] for name in ("accuracy", "loss", "seconds")}
        return row | {"attempts": self.attempts, "error": self.error}


def survey(plan: Plan, out: Path) -> list[Job]:
    """The runs of a plan as they stand in a folder.

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
                    f"{job.folder} holds another run: {_difference(run.config, planned.config)}; give another --out, "
                    f"or move it away first"
                )
            job.status = "finished" if run.finished else "waiting"
        job.look()
        jobs.append(job)
    return jobs


def results(jobs: Sequence[Job]) -> pd.DataFrame:
    """One row a run."""
    frame = pd.DataFrame([job.row() for job in jobs])
    for name in {name for job in jobs for name in job.planned.choice}:
        # A column of a Parquet is of one kind.
        values = [job.planned.choice.get(name) for job in jobs]
        kinds = {type(value) for value in values if value is not None}
        if not (kinds <= {int, float} or kinds in ({bool}, {str})):
            frame[name] = [None if value is None else as_text(value) for value in values]
    return frame.astype({"error": "string"})


def write_results(jobs: Sequence[Job], out: Path) -> pd.DataFrame:
    """Write the results, unless they are written already."""
    frame, path = results(jobs), out / RESULTS
    content = frame.to_parquet(index=False)
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
    return frame


def _attempts(path: Path) -> dict[str, int]:
    """How many attempts each run took in sweeps before this one; nothing, if the results are gone or damaged."""
    try:
        frame = pd.read_parquet(path, columns=["run", "attempts"])
    except (OSError, ValueError, pa.ArrowException):
        return {}
    return dict(zip(frame["run"], map(int, frame["attempts"]), strict=True))


def _difference(found: RunConfig, planned: RunConfig) -> str:
    """The first setting of a run that the sweep says otherwise."""

    def differ(name: str, had: Any, has: Any) -> str:
        if isinstance(had, Mapping) and isinstance(has, Mapping):
            inner = next(key for key in {**has, **had} if had.get(key) != has.get(key))
            return differ(f"{name}.{inner}", had.get(inner), has.get(inner))
        return f"its {name.removeprefix('.')} is {had!r}, and the sweep says {has!r}"

    return differ("", found.model_dump(mode="json"), planned.model_dump(mode="json"))
