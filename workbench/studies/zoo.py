"""The zoo: trained and compiled models that people look at first, taken from the runs of studies."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from workbench.inspection.found import find, keep
from workbench.runs import CONFIG, METRICS, Run, load_run
from workbench.runs.compiled import compile_run
from workbench.runs.weights import CHECKPOINTS, WEIGHTS
from workbench.studies.engine import RUNS, TUNED
from workbench.studies.study import DAY, SMALL, Scale, group_name
from workbench.training.sweeps.plan import read_plan
from workbench.util.files import check_free, new_folder


@dataclass(frozen=True)
class Exhibit:
    """A trained model of the zoo.

    Attributes:
        study: whose run it is.
        run: the name of the run.
        checkpoints: those that are kept of before the end of training: their steps; or how many, the first, the last,
            and others between.
        scale: of the study.
    """

    study: str
    run: str
    checkpoints: int | tuple[int, ...] = 0
    scale: Scale = SMALL


EXHIBITS: dict[str, Exhibit] = {
    "chain-chacal": Exhibit("chain-layers", "chacal-seed=0", (0, 46, 167)),  # most answers come after the second
    "chain-standard": Exhibit("chain-layers", "standard-seed=0-n_layers=3"),
    "box-moves-standard": Exhibit("box-moves", "standard-seed=0-n_layers=2", scale=DAY),
    "box-moves-chacal": Exhibit("box-moves", "standard-then-chacal-seed=0", 2, DAY),
    "sort-plain": Exhibit("sorting-lengths", "plain-seed=3", (1000,), DAY),  # the minimum comes early, and fades
    "sort-tempered": Exhibit("sorting-lengths", "tempered-seed=3", scale=DAY),
    "increment": Exhibit("increment-lengths", "plain-seed=0"),
    "multiply-vanilla": Exhibit("multiplication-methods", "vanilla-seed=0"),
    "multiply-seqvcr": Exhibit("multiplication-methods", "seqvcr-seed=0"),
    "arithmetic": Exhibit("arithmetic-methods", "seqvcr-operators=2-n_layers=3-seed=0"),
    "lis": Exhibit("lis-methods", "seqvcr-length=8-n_layers=3-seed=0"),
}
"""Name in the zoo -> whose run it is."""

COMPILED: dict[str, tuple[str, dict[str, int]]] = {
    "compiled-sorter": ("sorter", {"q": 9}),
    "compiled-chaser": ("chaser", {}),
}
"""Name in the zoo -> compiled model and its settings."""


def build_zoo(root: Path, out: Path, *, progress: bool = False) -> list[Run]:
    """Put the zoo together from the runs of studies, in a new folder, with what is found of each beside its weights.

    Args:
        root: the folder of all studies.
        out: the zoo's folder.
        progress: show on standard error which model is being measured; each takes seconds to a minute.

    Raises:
        ValueError: if a run is missing or not finished, or the folder exists.
    """
    check_free(out)
    sources = {name: _finished(root, exhibit) for name, exhibit in EXHIBITS.items()}
    with new_folder(out) as folder:
        for name, run in sources.items():
            (to := folder / name).mkdir(parents=True)
            for file in (CONFIG, METRICS, WEIGHTS):
                shutil.copyfile(run.path / file, to / file)
            steps = [step for step in sorted(run.checkpoints()) if step < run.step()]  # the last is in the weights
            checkpoints = EXHIBITS[name].checkpoints
            if isinstance(checkpoints, int):
                places = np.linspace(0, len(steps) - 1, min(checkpoints, len(steps))).round().astype(int)
                checkpoints = tuple(steps[place] for place in places)
            for step in checkpoints:
                (to / CHECKPOINTS).mkdir(exist_ok=True)
                file = f"step-{step}.safetensors"
                shutil.copyfile(run.path / CHECKPOINTS / file, to / CHECKPOINTS / file)
        for name, (model, settings) in COMPILED.items():
            compile_run(model, folder / name, settings)
        runs = [load_run(path.parent) for path in sorted(folder.glob(f"*/{CONFIG}"))]
        for run in track(runs, "measuring the zoo", console=Console(stderr=True), disable=not progress):
            *_, found = find(run)
            keep(found)
    return [load_run(path.parent) for path in sorted(out.glob(f"*/{CONFIG}"))]


def _finished(root: Path, exhibit: Exhibit) -> Run:
    """An exhibit's run as planned; or with the settings that its study chose, where there is no other."""
    folder = root / exhibit.study / exhibit.scale
    path = folder / RUNS / exhibit.run
    if (path / WEIGHTS).is_file():
        return load_run(path)
    from workbench.studies import STUDIES  # which imports what is here

    study = STUDIES[exhibit.study]
    count = study.seeds.get(exhibit.scale, 1)
    planned = next(one for one in read_plan(study.plan(exhibit.scale, count)).runs if one.name == exhibit.run)
    for other in study.tuned(exhibit.scale, [planned.config.seed]):
        tuned = folder / TUNED / other.name
        if group_name(other, study.tune) == group_name(planned) and (tuned / WEIGHTS).is_file():
            return load_run(tuned)
    command = f"workbench study run {exhibit.study}" + ("" if exhibit.scale == SMALL else f" --scale {exhibit.scale}")
    raise ValueError(f"there is no finished run {path}; `{command}` trains it")
