"""Running a study: its sweep, what is measured of each run, its groups of seeds, its contrasts, its result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from workbench.measurement import Measurement
from workbench.measurement.compare_runs import mean_over_runs
from workbench.runs import CONFIG, METRICS, Run, load_run, read_log
from workbench.runs.weights import WEIGHTS
from workbench.studies.code_of import described
from workbench.studies.contrasts import Contrast, Outcome, Verdict, together, what_in_words
from workbench.studies.result import AS_PLANNED, Result, Tried, settings_in_words
from workbench.studies.reuse import take_over
from workbench.studies.step_time import relative_step_times
from workbench.studies.stored import pack, read_json, unpack, write_json
from workbench.studies.study import Quantities, Scale, Study, StudyStoppedError, Tunes, group_name
from workbench.training.sweeps import sweep
from workbench.training.sweeps.plan import Planned, read_plan
from workbench.util.distribution import version
from workbench.util.plugins import sources

LESS_IS_BETTER = ("loss", "perplexity", "distance", "steps to")
RUNS, TUNED, MEASURED, RESULT = "runs", "tuned", "measured", "result.json"


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
        if self.study.compute is not None:
            return self._result(self._computed(), [], [])
        if self.study.tunes is not None:
            tuned_groups = self._fine_tuned(self.study.tunes)
            return None if tuned_groups is None else self._result(tuned_groups, [], [])
        plan = self.study.plan(self.scale, self.seeds)
        measured = self._trained(plan, self.runs / RUNS)
        if measured is None:
            return None
        groups = self._groups(measured)
        outcomes = [contrast.ask(groups) for contrast in self.study.asked(self.scale)]
        tried: list[Tried] = []
        if self.study.tune and any(outcome.verdict is Verdict.FAILS for outcome in outcomes):
            tuned = self._trained(self._tuning(plan, outcomes), self.out / TUNED, spare_failed=True)
            if tuned is None:
                return None
            outcomes = [
                self._asked_of_the_best(contrast, outcome, groups, tuned, tried)
                for contrast, outcome in zip(self.study.asked(self.scale), outcomes, strict=True)
            ]
        return self._result(groups, outcomes, tried)

    def _tuning(self, plan: Mapping[str, Any], outcomes: Iterable[Outcome]) -> dict[str, Any]:
        """The sweep of the settings to tune, of the variants that are in a contrast which failed."""
        asked = zip(self.study.asked(self.scale), outcomes, strict=True)
        failed = {group for contrast, outcome in asked if outcome.verdict is Verdict.FAILS for group in contrast.groups}
        variants = {planned.variant for planned in read_plan(plan).runs if group_name(planned) in failed}
        tuning = {**plan, "grid": {**plan["grid"], **self.study.tune}}
        if "variants" in plan:
            tuning["variants"] = [variant for variant in plan["variants"] if variant["name"] in variants]
        return tuning

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

    def _fine_tuned(self, tunes: Tunes) -> dict[str, Quantities] | None:
        """The groups of a study that fine-tunes: the mean over its seeds; None if it was stopped."""
        seeds = list(range(self.seeds))
        try:
            each = tunes(self.scale, seeds, self.runs / RUNS, self.given, self.workers, self.progress)
        except StudyStoppedError:
            return None
        return {
            group: {name: mean_over_runs([one[group][name] for one in each], seeds) for name in quantities}
            for group, quantities in each[0].items()
        }

    def _trained(
        self, plan: Mapping[str, Any], folder: Path, spare_failed: bool = False
    ) -> list[tuple[Planned, Quantities]] | None:
        """What is measured of every run of a sweep, trained if no study has; None if training was stopped.

        Args:
            plan: the sweep.
            folder: of the runs.
            spare_failed: leave out a group with a run that failed, such as for a learning rate that is too high.

        Raises:
            RuntimeError: if a run failed, and none is to be left out.
        """
        take_over(read_plan(plan).runs, folder, sorted(self.out.parents[1].glob(f"*/{self.scale}/*/")))
        table = sweep(plan, folder, workers=self.workers, ray=self.ray, progress=self.progress)
        if (table["status"] == "unfinished").any():
            return None
        failed = table[table["status"] == "failed"]
        planned = read_plan(plan).runs
        if len(failed) and not spare_failed:
            raise RuntimeError(f"{', '.join(failed['run'])} failed: {failed['error'].iloc[0]}")
        lost = {group_name(one) for one in planned if one.name in set(failed["run"])}
        planned = tuple(one for one in planned if group_name(one) not in lost)
        show = Console(stderr=True)
        each = track(planned, f"measuring {self.name}", console=show, disable=not self.progress)
        return [(one, self._measured(load_run(folder / one.name), folder.name)) for one in each]

    def _measured(self, run: Run, folder: str) -> Quantities:
        """What is measured of a run of a folder; kept, so that a study that is resumed measures it once."""
        assert self.study.measure is not None
        path = self.out / MEASURED / folder / f"{run.name}.json"
        mark, kept = self._mark(run), read_json(path)
        if isinstance(kept, dict) and kept.get("of") == mark:
            return {name: unpack(data) for name, data in kept["quantities"].items()}
        quantities = self.study.measure(run)
        write_json(path, {"of": mark, "quantities": {name: pack(one) for name, one in quantities.items()}})
        return {name: unpack(pack(one)) for name, one in quantities.items()}

    def _mark(self, run: Run) -> str:
        """What decides a run's measurement: its weights, config and log, and how it is measured, by which code."""
        digest = hashlib.sha256(f"{version()} {described(self.study.measure)} {sorted(sources().items())}".encode())
        for name in (WEIGHTS, CONFIG, METRICS):
            digest.update((run.path / name).read_bytes())
        return digest.hexdigest()

    def _groups(self, measured: Iterable[tuple[Planned, Quantities]]) -> dict[str, Quantities]:
        """The mean over the seeds of each group, of every quantity that all of them have."""
        members: dict[str, list[tuple[Planned, Quantities]]] = {}
        for planned, quantities in measured:
            members.setdefault(group_name(planned), []).append((planned, quantities))
        groups: dict[str, Quantities] = {}
        for name, own in members.items():
            shared = [key for key in own[0][1] if all(key in quantities for _, quantities in own)]
            seeds = [planned.config.seed for planned, _ in own]
            groups[name] = {key: mean_over_runs([quantities[key] for _, quantities in own], seeds) for key in shared}
        return groups

    def _asked_of_the_best(
        self,
        contrast: Contrast,
        before: Outcome,
        groups: Mapping[str, Quantities],
        tuned: Iterable[tuple[Planned, Quantities]],
        tried: list[Tried],
    ) -> Outcome:
        """A contrast that failed, asked again of the best setting of each of its groups; the others as they are."""
        if before.verdict is not Verdict.FAILS:
            return before
        best = dict(groups)
        for group in contrast.groups:
            of_group = [(one, quantities) for one, quantities in tuned if group_name(one, self.study.tune) == group]
            candidates = {AS_PLANNED: groups[group], **self._groups(of_group)}
            at = _asked_at(contrast, group)
            goodness = {
                name: _goodness(one[contrast.quantity], at, contrast.quantity) for name, one in candidates.items()
            }
            chosen = max(goodness, key=goodness.__getitem__)
            best[group] = candidates[chosen]
            asked = what_in_words(contrast.quantity, at)
            tried.append(Tried(group, asked, tuple(candidates), chosen))
        outcome = contrast.ask(best)
        return replace(outcome, words=outcome.words + settings_in_words(tried[-len(contrast.groups) :]))

    def _result(self, groups: dict[str, Quantities], outcomes: list[Outcome], tried: list[Tried]) -> Result:
        if not outcomes:
            outcomes = [contrast.ask(groups) for contrast in self.study.asked(self.scale)]
        planned = read_plan(self.study.plan(self.scale, self.seeds)).runs if self.study.runs else ()
        times: dict[str, float] = {}
        if self.study.timed is not None:
            times = relative_step_times({group_name(one): one.config for one in planned}, self.study.timed)
        result = Result.of(
            self.name,
            self.study,
            self.scale,
            self.seeds,
            groups,
            outcomes,
            together(outcomes),
            tried,
            planned,
            times,
            self._minutes(),
        )
        write_json(self.out / RESULT, result.to_dict())
        try:
            self.study.figures(groups)
        except ValueError as error:
            raise ValueError(f"the result is in {self.out / RESULT}, but cannot be drawn: {error}") from None
        return result

    def _minutes(self) -> float:
        """How long the training of all its runs took, one after the other; those that it shares too."""
        logs = [path for folder in (self.runs / RUNS, self.out / TUNED) for path in folder.glob(f"[!.]*/{METRICS}")]
        return sum(max((row.get("seconds", 0.0) for row in read_log(path)), default=0.0) for path in logs) / 60


def _asked_at(contrast: Contrast, group: str) -> Mapping[str, Any]:
    """The place at which a contrast asks for a group's quantity: dim -> coordinate."""
    elsewhere = getattr(contrast, "than_at", None)
    return getattr(contrast, "at", {}) if elsewhere is None or group == contrast.groups[0] else elsewhere


def _goodness(mean: Measurement, at: Mapping[str, Any], quantity: str) -> float:
    """How good a mean is: the more the better, but of a loss, a distance or a number of steps the less."""
    value = float(mean.select(**at).values)
    return -value if any(word in quantity for word in LESS_IS_BETTER) else value
