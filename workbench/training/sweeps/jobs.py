"""The runs of a sweep as jobs, and the table of results, `results.parquet`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from workbench.runs import CONFIG, Run, RunConfig, load_run
from workbench.runs.log import FIGURES
from workbench.training.loop import resume, train
from workbench.training.sweeps.job import Job
from workbench.training.sweeps.plan import RESULTS, Plan, Planned
from workbench.training.trackers import TRACK
from workbench.util.files import write_atomically
from workbench.util.settings import as_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class RunJob(Job):
    """The training of one run of a sweep."""

    planned: Planned

    @staticmethod
    def work(spec: Any, folder: Path) -> None:
        torch.set_num_threads(1)  # as many runs as cores train at a time, so that more threads would only wait
        track = os.environ.get(TRACK) or None
        if (folder / CONFIG).is_file():
            Job.let_it_save(folder)
            resume(folder, progress=False, track=track)
        else:
            train(spec, folder, progress=False, track=track)

    @property
    def run(self) -> Run:
        """The run folder, which may not exist yet, and to which a worker may be writing."""
        return Run(self.folder, self.config)

    @property
    def finished(self) -> bool:
        return self.run.finished

    def check(self) -> None:
        run = load_run(self.folder)
        if run.config != self.config:
            raise ValueError(
                f"{self.folder} holds another run: {_difference(run.config, self.config)}; move it "
                f"away first, or choose another folder"
            )

    def receive(self, folder: Path) -> None:
        run = load_run(folder)
        if run.config != self.config:
            raise ValueError(f"{self.name} came back with another config: the node has another version of workbench")
        run.model()  # raises if a weight is missing

    def latest(self) -> Mapping[str, Any]:
        return self.run.latest()

    def row(self) -> dict[str, Any]:
        """The run's row in the results."""
        status = self.status if self.status in ("finished", "failed") else "unfinished"
        row = {"run": self.name, "variant": self.planned.variant, **self.planned.choice}
        row |= {"seed": self.config.seed, "status": status, "step": self.step, "steps": self.steps}
        row |= {name: self.figures[name] for name in (*FIGURES, "seconds")}
        return row | {"attempts": self.attempts, "error": self.error}


def survey(plan: Plan, out: Path) -> list[RunJob]:
    """A job for each run of a plan, with its status and progress in a folder.

    Raises:
        ValueError: in one line, if a run's folder holds another run, or something damaged.
    """
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; give another folder with --out")
    before: dict[str, int] = {}  # attempts at each run in earlier sweeps; none if the results are missing or damaged
    if (out / RESULTS).exists():
        import pandas as pd
        import pyarrow as pa

        with suppress(OSError, ValueError, pa.ArrowException):
            frame = pd.read_parquet(out / RESULTS, columns=["run", "attempts"])
            before = dict(zip(frame["run"], map(int, frame["attempts"]), strict=True))
    jobs = [RunJob(run.config, out / run.name, run, attempts=before.get(run.name, 0)) for run in plan.runs]
    for job in jobs:
        job.survey()
    return jobs


def results(jobs: Sequence[RunJob]) -> pd.DataFrame:
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


def write_results(jobs: Sequence[RunJob], out: Path) -> pd.DataFrame:
    """Write the results, unless the file holds them already."""
    frame, path = results(jobs), out / RESULTS
    content = frame.to_parquet(index=False)
    if not path.is_file() or path.read_bytes() != content:
        write_atomically(path, content)
    return frame


def _difference(existing: RunConfig, planned: RunConfig) -> str:
    """The first setting that differs between the config on disk and the sweep's, in words."""

    def differ(name: str, had: Any, has: Any) -> str:
        if isinstance(had, Mapping) and isinstance(has, Mapping):
            inner = next(key for key in {**has, **had} if had.get(key) != has.get(key))
            return differ(f"{name}.{inner}", had.get(inner), has.get(inner))
        return f"its {name.removeprefix('.')} is {had!r}, and the sweep says {has!r}"

    return differ("", existing.model_dump(mode="json"), planned.model_dump(mode="json"))
