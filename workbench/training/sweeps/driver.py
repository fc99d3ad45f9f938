"""The driver of sweeps and studies: hands jobs to a crew of workers, repeats lost attempts, and tells the progress."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from workbench.training.paper_presets import PAPER_PRESETS
from workbench.training.presets import PRESETS
from workbench.training.sweeps.cluster import Cluster
from workbench.training.sweeps.job import Crew, Ended, Job
from workbench.training.sweeps.jobs import results, survey, write_results
from workbench.training.sweeps.local import Workers, at_a_time
from workbench.training.sweeps.plan import RETRIES, Plan, read_plan
from workbench.training.trackers import tracker
from workbench.util.files import check_can_make
from workbench.util.lookup import check_name
from workbench.util.messages import brief
from workbench.util.progress import duration

if TYPE_CHECKING:
    import pandas as pd

SECONDS_TO_WAIT = 0.2


def sweep(
    source: str | Path | Mapping[str, Any] | Plan,
    *given: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    seeds: int | None = None,
    workers: int | None = None,
    ray: str | None = None,
    track: str | None = None,
    progress: bool = True,
    **fields: Any,
) -> pd.DataFrame:
    """Train every run of a sweep that is not finished, and write `results.parquet` beside the run folders.

    A worker that dies loses one attempt: on this machine the next goes on from the run's last state, on a cluster from
    where it was handed over. A run that fails does not stop the others. Ctrl-C stops the sweep; the same call goes on.

    Args:
        source: a sweep file, its fields, or its plan; or a preset's name, with the other fields by name.
        given: the folder, as `out`, or of a preset what is varied, as the field `grid`: once each at most.
        out: folder for the run folders and the results; by default `sweeps/` and the file's or preset's name.
        seeds: of a preset, so many seeds from 0 of each choice of the grid.
        workers: runs that train at the same time, one core each; by default one a core.
        ray: the address of a Ray cluster to train on instead: host:port, "auto" for the one that runs here, or "local"
            for one of its own. A run takes one CPU, and a GPU if its `device` is "cuda".
        track: as of `train`; on this machine alone.
        progress: show progress on standard error.
        fields: of the sweep of a preset, as in a file: `grid={"learning_rate": [1e-3, 3e-4]}`, `settings`, `variants`.

    Returns:
        The results: one row a run, with its settings, `status` (finished, failed or unfinished) and final figures.

    Raises:
        ValueError: if the file or any of its runs is wrong, or a folder holds another run; nothing is written then.
    """
    source, out = _of_preset(source, given, out, seeds, fields)
    out, plan = output_folder(source, out), read_plan(source)
    tracker(track)  # raises if there is none
    jobs = survey(plan, out)
    keep = partial(write_results, jobs, out)
    train_all(jobs, out, retries=plan.retries, workers=workers, ray=ray, track=track, progress=progress, keep=keep)
    return results(jobs)


def _of_preset(
    source: Any, given: Sequence[Any], out: str | Path | None, seeds: int | None, fields: dict[str, Any]
) -> tuple[Any, str | Path | None]:
    """The source and the folder of a sweep, of a preset the fields of its file; all as they were given to `sweep`."""
    for each in given:
        if isinstance(each, Mapping) and "grid" not in fields:
            fields["grid"] = each
        elif isinstance(each, str | Path) and out is None:
            out = each
        else:
            raise ValueError(f"a sweep has one folder and one grid; there is also {brief(repr(each))}")
    if seeds is not None:
        fields["grid"] = {**fields.get("grid", {}), "seed": list(range(seeds))}
    if fields or (isinstance(source, str) and source in {**PRESETS, **PAPER_PRESETS}):
        out = Path("sweeps", str(source)) if out is None else out
        source = {"preset": source, **fields}
    return source, out


def train_all(
    jobs: Sequence[Job],
    out: Path,
    *,
    retries: int = RETRIES,
    workers: int | None,
    ray: str | None,
    track: str | None = None,
    progress: bool,
    keep: Callable[[], object] = lambda: None,
) -> None:
    """Have every job done that is not finished, on this machine or a cluster; each job then has its status.

    Args:
        jobs: the jobs, once each has looked at its folder (`Job.survey`).
        out: the folder of theirs.
        retries: attempts more, at a job whose worker or node died.
        workers, ray, track, progress: as of `sweep`.
        keep: called whenever a job has ended, and at the end.

    Raises:
        ValueError: as `sweep`.
    """
    if ray is not None and workers is not None:
        raise ValueError("give workers, or the address of a Ray cluster, not both: a cluster knows its own CPUs")
    if ray is not None and track is not None:
        raise ValueError(f"give track, or the address of a Ray cluster, not both: {track} is of this machine")
    count = at_a_time(workers)
    check_can_make(out / "run")
    unfinished = [job for job in jobs if job.status == "waiting"]
    crew: Crew = Workers(count, track) if ray is None or not unfinished else Cluster(ray)
    with closing(crew), _only_sweep(out):
        with Board(jobs, crew, progress and bool(unfinished)) as board:
            _train(unfinished, crew, board, retries, keep)
        keep()


def output_folder(source: str | Path | Mapping[str, Any] | Plan, out: str | Path | None) -> Path:
    """The folder of a sweep's runs."""
    if out is not None:
        return Path(out)
    if isinstance(source, Mapping | Plan):
        raise ValueError("say where the runs go with `out`: a sweep given by its fields has no name of its own")
    name = Path(source).stem
    check_name(name, "a sweep")
    return Path("sweeps") / name


def _train(jobs: Sequence[Job], crew: Crew, board: Board, retries: int, save: Callable[[], object]) -> None:
    """Have the crew do these jobs until each is finished or has failed, or until Ctrl-C."""
    waiting = deque(jobs)
    try:
        while waiting or any(job.status == "running" for job in jobs):
            while waiting and crew.has_room():
                job = waiting.popleft()
                job.status = "running"
                crew.start(job)
            for end in crew.ended(SECONDS_TO_WAIT):
                _settle(end, board, retries)
                if end.job.status == "waiting":
                    waiting.append(end.job)
                save()
            board.update()
    except KeyboardInterrupt:
        hint = (
            "a second Ctrl-C does not wait for the runs to save" if crew.here else "runs begun on the cluster are lost"
        )
        board.say(f"stopping; {hint}")
        crew.stop()
        for job in jobs:
            if job.status == "running":
                job.look()
                job.attempts += crew.here  # on a cluster it may not have begun, and its training is lost
                job.status = "finished" if job.finished else "waiting"


def _settle(end: Ended, board: Board, retries: int) -> None:
    """Set the status of a job after an attempt: finished, failed, or waiting for another attempt."""
    job, error, lost = end.job, end.error, end.lost
    try:
        job.look()
        if error is None and not job.finished:
            error, lost = f"it was stopped at step {job.step} of {job.steps}", True
    except ValueError as damage:
        error, lost = str(damage), False
    job.attempts += 1
    job.lost += lost
    if error is None:
        job.status = "finished"
    elif lost and job.lost <= retries:
        job.status = "waiting"
        board.say(f"{job.name} lost an attempt: {error}; making it again")
        return
    else:
        job.status = "failed"
        job.error = f"{error}; {job.lost} attempts were lost" if lost else error
    board.ended(job)


@contextmanager
def _only_sweep(out: Path) -> Iterator[None]:
    """Hold the lock of the sweep's folder within this context. Raises ValueError if another process holds it."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(out / ".sweep.lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(f"{out} is being swept by another process; wait for it, or stop it first") from None


SECONDS_BETWEEN_LOOKS = 1.0
MOST_ROWS = 20


class Board:
    """The progress display of the jobs of a sweep or study."""

    def __init__(self, jobs: Sequence[Job], crew: Crew, show: bool) -> None:
        self.jobs, self.crew = jobs, crew
        self.console = Console(stderr=True, quiet=not show, markup=False)
        self.live = Live(console=self.console, auto_refresh=False) if show and self.console.is_terminal else None
        self.started = self.looked = time.monotonic()
        self.before = sum(job.step for job in jobs)

    def __enter__(self) -> Board:
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.update(self.totals(), refresh=True)
            self.live.stop()

    def ended(self, job: Job) -> None:
        """Report a run that has finished or failed."""
        if job.status == "failed":
            self.say(f"{job.name} failed: {job.error}")
        elif not self.live:
            self.say(f"{job.name} finished: {_figures(job)}; {self.totals()}")

    def say(self, text: str) -> None:
        """Print a line, whoever wrote parts of it."""
        self.console.print(brief(text), highlight=False, soft_wrap=True)

    def update(self) -> None:
        """Redraw the table, at most once a second."""
        if not self.live or time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return
        running = [job for job in self.jobs if job.status == "running"] if self.crew.here else []
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for job in running:
            with suppress(ValueError):  # a damaged log is reported when the attempt ends
                job.look()
        for job in running[:MOST_ROWS]:
            table.add_row(job.name, f"{job.step}/{job.steps}", _figures(job))
        self.live.update(Group(self.totals(), table), refresh=True)
        self.looked = time.monotonic()

    def totals(self) -> str:
        count = Counter(job.status for job in self.jobs)
        # A cluster may not have started all the attempts that it was given.
        running = min(count["running"], self.crew.at_once())
        waiting = count["waiting"] + count["running"] - running
        done = f"{count['finished']} of {len(self.jobs)} finished"
        text = f"{done}, {count['failed']} failed, {running} running, {waiting} waiting"
        steps_done = sum(job.step for job in self.jobs) - self.before
        steps_left = sum(job.steps - job.step for job in self.jobs if job.status in ("running", "waiting"))
        if steps_done <= 0 or not steps_left:
            return text
        return f"{text}, {duration((time.monotonic() - self.started) / steps_done * steps_left)} left"


def _figures(job: Job) -> str:
    shown = {"accuracy": "accuracy {:.1%}", "loss": "loss {:.4f}", "seconds": "{:.0f} s"}
    figures = [text.format(job.figures[name]) for name, text in shown.items() if not math.isnan(job.figures[name])]
    return "  ".join(figures)
