"""The rows of the ledger that one GPU fills: which come next, how long each takes, and a small archive of each.

Nothing here imports pandas, Plotly or TransformerLens: a bare machine with a GPU trains and measures, no more.
"""

from __future__ import annotations

import signal
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from workbench.runs import CONFIG, METRICS
from workbench.studies.engine import MEASURED, RESULT, RUNS, Engine
from workbench.studies.result import Result
from workbench.studies.study import GPU, Scale, Study
from workbench.training.sweeps.jobs import RunJob
from workbench.training.sweeps.local import MOST_A_CORE, at_a_time
from workbench.training.sweeps.plan import read_plan
from workbench.util.files import new_file
from workbench.util.seeds import generator
from workbench.util.settings import merge

DRY: Scale = "dry-run"
ARCHIVES = "archives"  # folder of them, beside those of the studies
LOGS = "logs"  # of the runs, in an archive: without weights they are no run folders
TINY: dict[str, Any] = {  # what a run of a dry run has in place of its own settings
    **{"steps": 2, "warmup": 0, "batch_size": 4, "eval_size": 4, "precision": "float32", "device": "cpu", "workers": 0},
    "model": {"d_model": 16, "n_heads": 4, "d_head": 4, "d_mlp": 16},
}
FLOPS = 1e14  # a second: what the runs of chain-layers reached together on an H200, in bfloat16
LAUNCH = 2.5e-3  # seconds in which Python has a layer's kernels of a step launched: assumed, not measured
DRAWN = 256  # sequences whose drawing is timed
CORES = 16  # beside that GPU


def next_rows(studies: Mapping[str, Study], filled: Sequence[tuple[str, Scale]], root: Path) -> list[list[str]]:
    """The studies with a scale `gpu` that have no result, in their order; those that measure the same runs together.

    Args:
        studies: all studies, by name.
        filled: (name, scale) of each row of the ledger.
        root: the folder of all studies, where there may be results that are not in the ledger yet.
    """
    rows: dict[str, list[str]] = {}
    for name, study in studies.items():
        if GPU in study.runs and (name, GPU) not in filled and not (root / name / GPU / RESULT).exists():
            rows.setdefault(study.runs_of or name, []).append(name)
    return list(rows.values())


def minutes(study: Study, seeds: int) -> float:
    """How long a study's runs take side by side on an H200: an estimate, from their sizes.

    It is the longest of three: what the GPU computes for all runs; what the cores launch and draw for all of them; and
    the same for the longest run, which has a core, and one for each process that draws its batches.
    """
    computed, busy, longest = 0.0, 0.0, 0.0
    for one in read_plan(study.plan(GPU, 1)).runs:
        config = one.config
        task, model = config.make_task(), config.model
        lengths = task.lengths(task.sample(64, generator(0, "width")).tokens).float()
        width = float(lengths.mean() if config.bucket_steps > 1 else lengths.max())
        # The operations of a training step: six a parameter and token, and attention's own products.
        of_attention = 2 * model.n_layers * model.d_model * width
        operations = 6 * (model.n_parameters + of_attention) * config.batch_size * width
        task.sample(DRAWN, generator(0, "first"))  # what is made once is no part of the time
        start = time.process_time()
        task.sample(DRAWN, generator(0, "time"))
        drawn = config.batch_size * (time.process_time() - start) / DRAWN
        launched = LAUNCH * (2 + model.n_layers)
        computed += seeds * config.steps * operations / FLOPS
        busy += seeds * config.steps * (launched + drawn) / CORES
        own = max(launched, drawn / config.workers) if config.workers else launched + drawn
        longest = max(longest, config.steps * own)
    return max(computed, busy, longest) / 60


def dry(study: Study) -> Study:
    """The study with models and runs so small that a CPU trains them in seconds, at a scale of its own."""
    sweep = study.runs[GPU]
    variants = [{**one, "settings": merge(one.get("settings", {}), TINY)} for one in sweep["variants"]]
    return replace(
        study,
        runs={DRY: {**sweep, "variants": variants}},
        seeds={DRY: 1},
        contrasts_at={DRY: study.asked(GPU)},
        tune={},
        timed=None,
    )


@dataclass(frozen=True)
class Measuring(Engine):
    """An engine that measures a run as soon as it has ended, and then writes the archive anew.

    Attributes:
        archive: the file; it holds `NAME/SCALE/result.json` and what was measured, and of each run its config and log.
    """

    archive: Path = field(kw_only=True)

    def _keep(self, jobs: Sequence[RunJob], folder: Path) -> None:
        for job in jobs:
            path = self.out / MEASURED / folder.name / f"{job.name}.json"
            if job.status == "finished" and not path.exists():
                self._measured(job.run, folder.name)
        self.write_archive()

    def write_archive(self) -> None:
        """Write the archive, whole or not at all."""
        files = {RESULT: self.out / RESULT} if (self.out / RESULT).exists() else {}
        files |= {str(path.relative_to(self.out)): path for path in sorted(self.out.glob(f"{MEASURED}/*/*.json"))}
        for name in (CONFIG, METRICS):
            files |= {f"{LOGS}/{path.parent.name}/{name}": path for path in sorted(self.runs.glob(f"{RUNS}/*/{name}"))}
        self.archive.parent.mkdir(parents=True, exist_ok=True)
        with new_file(self.archive) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in files.items():
                archive.write(path, f"{self.name}/{self.scale}/{name}")


def fill(
    name: str, study: Study, scale: Scale, root: Path, out: Path, at_most: float, *, progress: bool = True
) -> tuple[Result | None, Path]:
    """Train and measure what a study still lacks, all runs side by side, and write its archive as runs end.

    What was trained is kept under the root: the same call goes on.

    Args:
        name, study, scale: the study.
        root: the folder of all studies.
        out: the folder of the archives.
        at_most: minutes, after which training is stopped, and its states saved.
        progress: show progress on standard error.

    Returns the result, None if it was stopped; and the archive.

    Raises:
        ValueError, RuntimeError: as `run_study`; the archive holds what was measured.
    """
    seeds = study.seeds[scale]
    own, home = (root / folder / scale for folder in (name, study.runs_of or name))
    n_runs = len(read_plan(study.plan(scale, seeds)).runs)
    workers = min(n_runs, MOST_A_CORE * at_a_time(None)) if torch.cuda.is_available() else None
    archive = out / f"{name}-{scale}.zip"
    engine = Measuring(name, study, scale, seeds, own, home, workers, progress=progress, archive=archive)
    try:
        with _stopped_after(at_most):
            return engine.run(), archive
    except KeyboardInterrupt:
        return None, archive
    finally:
        engine.write_archive()


@contextmanager
def _stopped_after(at_most: float) -> Iterator[None]:
    """Have Python stop what it does within this context, as by Ctrl-C, after so many minutes."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 60 * at_most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
