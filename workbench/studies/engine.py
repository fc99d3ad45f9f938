"""Running a study: its sweep, what is measured of each run, its groups of seeds, its contrasts, its result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import track

from workbench.judgement.tuning import AS_PLANNED, Tuning
from workbench.judgement.verdict import Outcome
from workbench.measurement import Measurement
from workbench.measurement.compare_runs import over_seeds
from workbench.runs import CONFIG, METRICS, Run, load_run, read_log
from workbench.runs.weights import WEIGHTS
from workbench.studies.code_of import described
from workbench.studies.measures import OverTraining
from workbench.studies.result import Result, differences, made_now
from workbench.studies.reuse import take_over
from workbench.studies.step_time import relative_step_times
from workbench.studies.stored import pack, read_json, unpack, unpack_each, write_json
from workbench.studies.study import (
    STUDY_FILE,
    Quantities,
    Scale,
    Study,
    StudyStoppedError,
    check_ended,
    group_name,
)
from workbench.studies.tuning import Choices
from workbench.training.sweeps.driver import train_all
from workbench.training.sweeps.jobs import RunJob, survey, write_results
from workbench.training.sweeps.plan import Plan, Planned, read_plan
from workbench.util.distribution import version
from workbench.util.files import write_atomically
from workbench.util.plugins import sources

if TYPE_CHECKING:
    from workbench.studies.fine_tuning import FineTunes

RUNS, TUNING, TUNED, MEASURED, RESULT = "runs", "tuning", "tuned", "measured", "result.json"
"""Folders of runs as planned; of those by which settings are chosen; of those that are asked with chosen settings."""

CURVES = ("accuracy", "whole_answer")
"""Figures of the log whose curves are kept of every run that has them: they tell which was stopped on the way."""

Settings = dict[str, dict[str, Quantities]]
"""Group -> setting -> the mean of each quantity over its seeds."""


@dataclass(frozen=True)
class Engine:
    """Where and how a study runs.

    Attributes:
        name: the study's.
        study: the study.
        scale: which of its scales.
        seeds: of each group.
        out: the folder for its result.
        runs: the folder whose runs it trains: its own, or that of the study whose runs it shares. What is tuned is its
            own.
        workers, ray, progress: as of `workbench.sweep`.
        given: what a study that fine-tunes takes from elsewhere: `model`, `text`.
    """

    name: str
    study: Study
    scale: Scale
    seeds: int
    out: Path
    runs: Path
    workers: int | None = None
    ray: str | None = None
    progress: bool = True
    given: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> Result | None:
        """Train and measure what is missing; None if that was stopped before its end.

        Raises:
            ValueError: if the study has no such scale, a setting is wrong, or a folder holds another run.
            RuntimeError: if a run failed.
        """
        self.study.check(self.scale)
        try:
            return self._answered()
        except StudyStoppedError:
            return None

    def _answered(self) -> Result:
        if self.study.compute is not None:
            return self._result(self._computed())
        if self.study.tunes is not None:
            return self._result(self._fine_tuned(self.study.tunes))
        measured = self._trained(self.study.to_choose(self.scale, self.seeds), self.out / TUNING, spare_failed=True)
        choices = Choices.of(self.study.asked(self.scale), self._settings(measured), self.study.less_is_better)
        known = self._asked(choices)
        contrasts = self.study.asked(self.scale)
        first: dict[str, str] = {}  # the setting that stands for a group in figures and tables
        for contrast in contrasts:
            first = choices.of_contrast(contrast) | first
        groups = {group: own[first.get(group, AS_PLANNED)] for group, own in known.items()}
        outcomes = []
        for contrast in contrasts:
            best = {group: known[group][setting] for group, setting in choices.of_contrast(contrast).items()}
            outcomes.append(contrast.ask(best, choices.in_words(contrast)))
        return self._result(groups, outcomes, choices)

    def _asked(self, choices: Choices) -> Settings:
        """What is measured of every group with the settings that it is asked with."""
        wanted: dict[str, set[str]] = {}
        for contrast in self.study.asked(self.scale):
            for group, setting in choices.of_contrast(contrast).items():
                wanted.setdefault(group, set()).add(setting)
        every = read_plan(self.study.plan(self.scale, self.seeds)).runs
        planned = [one for one in every if AS_PLANNED in wanted.get(group_name(one), {AS_PLANNED})]
        tuned = self.study.tuned(self.scale, range(self.seeds))
        tuned = tuple(one for one in tuned if group_name(one) in wanted[group_name(one, self.study.tune)])
        known = self._settings([*self._trained(planned, self.runs / RUNS), *self._trained(tuned, self.out / TUNED)])
        return {group: known[group] for group in dict.fromkeys(map(group_name, every))}

    def _settings(self, measured: Iterable[tuple[Planned, Quantities]]) -> Settings:
        """The means over seeds of every group, by its setting: of every quantity that all its seeds have."""
        members: dict[str, list[tuple[Planned, Quantities]]] = {}
        for one, quantities in measured:
            members.setdefault(group_name(one), []).append((one, quantities))
        planned = set(map(group_name, read_plan(self.study.plan(self.scale, 1)).runs))
        known: Settings = {}
        for name, own in members.items():
            group, setting = (name, AS_PLANNED) if name in planned else (group_name(own[0][0], self.study.tune), name)
            shared = [key for key in own[0][1] if all(key in quantities for _, quantities in own)]
            seeds = [one.config.seed for one, _ in own]
            means = {key: over_seeds([quantities[key] for _, quantities in own], seeds, shared=True) for key in shared}
            known.setdefault(group, {})[setting] = means
        return known

    def _computed(self) -> dict[str, Quantities]:
        """The groups of a study without runs: the mean over the examples of all seeds."""
        assert self.study.compute is not None
        parts = [self.study.compute(self.scale, seed) for seed in range(self.seeds)]
        return {
            group: {
                name: Measurement.join([part[group][name] for part in parts]).mean("example") for name in quantities
            }
            for group, quantities in parts[0].items()
        }

    def _fine_tuned(self, tunes: FineTunes) -> dict[str, Quantities]:
        """The groups of a study that fine-tunes: the mean over its seeds."""
        seeds = list(range(self.seeds))
        each = tunes(self.scale, seeds, self.runs / RUNS, self.given, self.workers, self.ray, self.progress)
        return {
            group: {name: over_seeds([one[group][name] for one in each], seeds, shared=True) for name in quantities}
            for group, quantities in each[0].items()
        }

    def _trained(
        self, planned: Sequence[Planned], folder: Path, spare_failed: bool = False
    ) -> list[tuple[Planned, Quantities]]:
        """What is measured of every run, trained if no study has.

        Args:
            planned: the runs.
            folder: of the runs.
            spare_failed: leave out a group with a run that failed, such as for a learning rate that is too high.

        Raises:
            RuntimeError: if a run failed, and none is to be left out.
            StudyStoppedError: if training was stopped.
        """
        if not planned:
            return []
        take_over(planned, folder, sorted(self.out.parents[1].glob(f"*/{self.scale}/*/")))
        retries = read_plan(self.study.plan(self.scale, 1)).retries
        jobs = survey(Plan(tuple(planned), retries), folder)
        train_all(
            jobs,
            folder,
            retries=retries,
            workers=self.workers,
            ray=self.ray,
            progress=self.progress,
            keep=lambda: self._keep(jobs, folder),
        )
        failed = [job for job in jobs if job.status == "failed"]
        check_ended([job for job in jobs if job not in failed] if spare_failed else jobs)
        lost = {group_name(job.planned) for job in failed}
        planned = tuple(one for one in planned if group_name(one) not in lost)
        show = Console(stderr=True)
        each = track(planned, f"measuring {escape(self.name)}", console=show, disable=not self.progress)
        return [(one, self._measured(load_run(folder / one.name), folder.name)) for one in each]

    def _keep(self, jobs: Sequence[RunJob], folder: Path) -> None:
        """Keep how far all runs of a folder are; called whenever one has ended."""
        write_results(jobs, folder)

    def _measured(self, run: Run, folder: str) -> Quantities:
        """What is measured of a run of a folder, and its learning curves; kept, so that it is measured once."""
        assert self.study.measure is not None
        path = self.out / MEASURED / folder / f"{run.name}.json"
        mark, kept = self._mark(run), read_json(path)
        if isinstance(kept, dict) and kept.get("of") == mark:
            with suppress(ValueError):  # what is damaged is measured again
                return unpack_each(kept.get("quantities"))
        quantities = self.study.measure(run)
        for figure in CURVES:
            quantities |= {name: curve for name, curve in OverTraining(figure)(run).items() if name not in quantities}
        write_json(path, {"of": mark, "quantities": {name: pack(one) for name, one in quantities.items()}})
        return {name: unpack(pack(one)) for name, one in quantities.items()}

    def _mark(self, run: Run) -> str:
        """What decides a run's measurement: its weights, config and log, and how it is measured, by which code."""
        digest = hashlib.sha256(
            f"{version()} {described(self.study.measure)} {CURVES} {sorted(sources().items())}".encode()
        )
        for name in (WEIGHTS, CONFIG, METRICS):
            digest.update((run.path / name).read_bytes())
        return digest.hexdigest()

    def _result(
        self, groups: dict[str, Quantities], outcomes: Sequence[Outcome] | None = None, choices: Choices | None = None
    ) -> Result:
        if outcomes is None:
            outcomes = [contrast.ask(groups) for contrast in self.study.asked(self.scale)]
        tried = [] if choices is None else list(choices.tried.values())
        planned = read_plan(self.study.plan(self.scale, self.seeds)).runs if self.study.runs else ()
        times: dict[str, float] = {}
        if self.study.timed is not None:
            times = relative_step_times({group_name(one): one.config for one in planned}, self.study.timed)
        study = self.study
        about: dict[str, Any] = {"question": study.question, "published": study.published, "note": study.note}
        about |= {"source": None if study.source is None else asdict(study.source), "seeds": self.seeds}
        about |= {"differs": list(differences(study, self.scale, planned)), "made": made_now(self._minutes(), times)}
        tuning = Tuning.BEFORE if tried else Tuning.PLANNED
        result = Result(self.name, self.scale, groups=groups, outcomes=outcomes, tried=tried, tuning=tuning, **about)
        write_json(self.out / RESULT, result.to_dict())
        if self.study.file and self.study.toml:
            write_atomically(self.out.parent / STUDY_FILE, self.study.toml.encode())
        return result

    def _minutes(self) -> float:
        """How long the training of all its runs took, one after the other; those that it shares too."""
        logs = [
            path
            for folder in (self.runs / RUNS, self.out / TUNING, self.out / TUNED)
            for path in folder.glob(f"[!.]*/{METRICS}")
        ]
        return sum(max((row.get("seconds", 0.0) for row in read_log(path)), default=0.0) for path in logs) / 60
