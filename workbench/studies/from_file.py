"""A study from a TOML file, as those of the papers are; or from a Python file outside this repository.

    question = "Does the weight of further hops matter?"
    measure = ["log.accuracy", "path_mass"]     # see `Measured`
    draw = "accuracy"                           # a quantity, or several figures: see `Drawing`
    title = "Accuracy by weight of further hops"  # of the figure; by default the question

    [runs.small]                                # a sweep file's fields, without seeds; of any scales, here one
    preset = "chain-chacal"
    grid."model.attention.gamma" = [0.0, 0.9]

    [[contrasts]]                               # `than` another group, or `reaches` a value, or `stays_below` one
    quantity = "accuracy"
    group = "chain-chacal, gamma 0.9"
    than = "chain-chacal, gamma 0.0"

A Python file has the same as `STUDY = Study(…)`. It is run as the program that it is: open none that you do not trust.
"""

from __future__ import annotations

import itertools
import re
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from workbench.inspection.measures import every_measure
from workbench.studies.contrasts import OVER_TRAINING, Contrast, Higher, Reaches, StaysBelow
from workbench.studies.drawing import Drawing
from workbench.studies.measures import (
    HALF_RIGHT,
    AtCheckpoints,
    ByCondition,
    HalfRight,
    Inspect,
    Logged,
    Measure,
    OverTraining,
    StepsTo,
    Together,
    parameters,
    perplexity,
)
from workbench.studies.study import Published, Source, Study
from workbench.util.files import LONGEST_TOML, check_file, read_text, read_toml
from workbench.util.lookup import lookup
from workbench.util.messages import brief
from workbench.util.plugins import running
from workbench.util.strict_settings import Checked, checked

SEEDS = 5  # of each group, where the file does not say how many


class ContrastInFile(Checked):
    """A `[[contrasts]]` block; with a list of groups, quantities or places it stands for one contrast of each."""

    quantity: str | list[str]
    group: str | list[str]
    than: str | None = None
    by: float = 0.0
    reaches: float | None = None
    stays_below: float | None = None
    at: dict[str, Any] | list[dict[str, Any]] = Field(default={})
    than_at: dict[str, Any] | None = None

    def contrasts(self) -> Iterator[Contrast]:
        """What it says. Raises ValueError unless it has exactly one of `than`, `reaches` and `stays_below`."""
        if sum(value is not None for value in (self.than, self.reaches, self.stays_below)) != 1:
            raise ValueError(f"a contrast of {self.quantity} has one of than, reaches and stays_below")
        for quantity, group, at in itertools.product(*map(_listed, (self.quantity, self.group, self.at))):
            if self.than is not None:
                yield Higher(quantity, group, self.than, self.by, at, self.than_at)
            elif self.reaches is not None:
                yield Reaches(quantity, group, self.reaches, at)
            elif self.stays_below is not None:
                yield StaysBelow(quantity, group, self.stays_below, at)


class PublishedInFile(Checked):
    """A `[[published]]` block: the `value` of a `group`, or the `values` of several."""

    quantity: str
    group: str | None = None
    value: float | None = None
    values: dict[str, float] = Field(default={})
    at: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _one_or_several(self) -> PublishedInFile:
        if (self.group is None) != (self.value is None) or (self.group is None) == (not self.values):
            raise ValueError("has a group with its value, or values = { GROUP = VALUE }")
        return self

    def published(self) -> Iterator[Published]:
        """Each published figure."""
        values = self.values if self.group is None or self.value is None else {self.group: self.value}
        return (Published(group, self.quantity, value, self.at) for group, value in values.items())


class Measured(Checked):
    """What is measured by instruments and mechanisms: an entry of `measure` that says more than their names.

    Attributes:
        instruments: their names.
        n: sequences of each test condition; by default the file's own `n`.
        settings, conditions, also, suffix, controls: as of `measures.Inspect`.
        by, values, times_longest: a test condition that varies, by which each is measured (`measures.ByCondition`).
        at_checkpoints: measured at every checkpoint, as `NAME over training`.
        half_right: accuracy, and beside it the length up to which half are right, as of `measures.HalfRight`.
    """

    instruments: list[str] = Field(min_length=1)
    n: int | None = Field(None, ge=2)
    settings: dict[str, dict[str, Any]] = Field(default={})
    conditions: list[dict[str, Any]] | None = None
    also: list[dict[str, Any]] = Field(default=[])
    suffix: str = ""
    controls: list[str] = Field(default=[])
    by: str | None = None
    values: list[Any] | None = None
    times_longest: int | None = None
    at_checkpoints: bool = False
    half_right: bool = False

    def measure(self, n: int) -> Measure:
        """The measure. Raises ValueError if there is no such instrument or mechanism."""
        every_measure(self.instruments)
        names, n = tuple(self.instruments), self.n or n
        if self.by is not None:
            values = None if self.values is None else tuple(self.values)
            return ByCondition(names, self.by, values, self.times_longest, n)
        inspect = Inspect(
            names,
            n,
            settings=self.settings,
            conditions=None if self.conditions is None else tuple(self.conditions),
            also=tuple(self.also),
            suffix=self.suffix,
            controls=tuple(self.controls),
        )
        return AtCheckpoints(inspect) if self.at_checkpoints else HalfRight(inspect) if self.half_right else inspect

    def quantities(self) -> list[str]:
        """The names of what it measures."""
        names = [f"{name}{self.suffix}" for name in self.instruments]
        names += [f"{name}, {control}" for name in names for control in self.controls]
        return (
            [f"{name}{OVER_TRAINING}" for name in names]
            if self.at_checkpoints
            else [*names, *[HALF_RIGHT] * self.half_right]
        )


class StudyFile(Checked):
    """The fields of a study's TOML file. Where it has `runs_of`, that study's runs, seeds and the like are its own."""

    question: str = Field(min_length=1)
    measure: list[str | Measured] = Field(min_length=1)
    draw: str | list[str | Drawing]
    title: str = ""
    runs: dict[str, dict[str, Any]] = Field(default={})
    runs_of: str | None = None
    contrasts: list[ContrastInFile] = Field(default=[])
    contrasts_at: dict[str, list[ContrastInFile]] = Field(default={})
    published: list[PublishedInFile] = Field(default=[])
    source: Source | None = None
    seeds: dict[str, int] = Field(default={})
    because: dict[str, str] = Field(default={})
    tune: dict[str, list[Any]] = Field(default={})
    less_is_better: list[str] = Field(default=[])
    timed: str | None = None
    n: int = Field(256, ge=2)
    note: str = ""

    @model_validator(mode="after")
    def _has_runs(self) -> StudyFile:
        if bool(self.runs) == (self.runs_of is not None):
            raise ValueError("has runs, or the name of the study whose runs it measures: runs_of")
        return self

    def study(self, studies: Mapping[str, Study]) -> Study:
        """The study. Raises ValueError if it names a study, scale or quantity that there is not."""
        of = None if self.runs_of is None else lookup(studies, self.runs_of, "study")
        runs = self.runs if of is None else of.runs
        for field, by_scale in (("seeds", self.seeds), ("contrasts_at", self.contrasts_at)):
            if unknown := sorted(set(by_scale) - set(runs)):
                raise ValueError(f"{field} are given for scale {unknown[0]!r}; runs has: {', '.join(runs)}")
        contrasts = [contrast for block in self.contrasts for contrast in block.contrasts()]
        contrasts_at = {
            scale: [one for block in each for one in block.contrasts()] for scale, each in self.contrasts_at.items()
        }
        published = [one for block in self.published for one in block.published()]
        measure, quantities = self._measures()
        asked = [one.asked.quantity for each in (contrasts, *contrasts_at.values()) for one in each]
        drawings = [Drawing(quantity=entry) if isinstance(entry, str) else entry for entry in _listed(self.draw)]
        shown = [quantity for drawing in drawings for quantity in drawing.quantities]
        for quantity in (*shown, *asked, *(one.quantity for one in published), *self.less_is_better):
            lookup(dict.fromkeys(quantities), quantity, "quantity")
        seeds = {scale: self.seeds.get(scale, SEEDS if of is None else of.seeds.get(scale, SEEDS)) for scale in runs}
        return Study(
            question=self.question,
            contrasts=contrasts,
            contrasts_at=contrasts_at,
            draw=[drawing.of_study(self.title or self.question, published) for drawing in drawings],
            runs=runs,
            runs_of=self.runs_of,
            measure=measure,
            source=self.source,
            published=published,
            seeds=seeds,
            because=self.because or ({} if of is None else of.because),
            tune=self.tune or ({} if of is None else of.tune),
            less_is_better=self.less_is_better,
            timed=self.timed,
            note=self.note,
        )

    def _measures(self) -> tuple[Together, list[str]]:
        """All that is measured, and the names of its quantities.

        By name these are instruments and mechanisms, `log.FIGURE`, `log.FIGURE over training`, `parameters`,
        `perplexity` and `steps to 90 %`, the first evaluation with that accuracy.
        """
        parts: list[Measure] = []
        logged: list[str] = []
        instruments: list[str] = []
        quantities: list[str] = []
        for entry in self.measure:
            if isinstance(entry, Measured):
                parts.append(entry.measure(self.n))
                quantities += entry.quantities()
                continue
            name = entry.removeprefix("log.")
            quantities.append(name)
            if steps := re.fullmatch(r"steps to ([\d.]+) %", entry):
                parts.append(StepsTo(float(steps[1]) / 100))
            elif entry in ("parameters", "perplexity"):
                parts.append(parameters if entry == "parameters" else perplexity)
            elif entry == name:
                instruments.append(name)
            elif name.endswith(OVER_TRAINING):
                parts.append(OverTraining(name.removesuffix(OVER_TRAINING)))
            else:
                logged.append(name)
        every_measure(instruments)
        of_log = [Logged(tuple(logged))] if logged else []
        return Together((*of_log, *parts, *([Inspect(tuple(instruments), self.n)] if instruments else []))), quantities


def study_from_file(path: str | Path, studies: Mapping[str, Study] | None = None) -> Study:
    """The study in a TOML or Python file.

    Args:
        path: the file.
        studies: those whose runs it may measure (`runs_of`), by name.

    Raises:
        ValueError: in one line, if there is no such file, or it is not a study.
    """
    path = Path(path)
    check_file(path, "study file")
    if path.suffix == ".py":
        with running(path, "study"):
            study = runpy.run_path(str(path)).get("STUDY")
        if not isinstance(study, Study):
            raise ValueError(f"{path} has no STUDY = Study(…); `workbench.studies.Study` says what one is")
        return replace(study, file=path.name)
    data = read_toml(path)
    try:
        study = checked(StudyFile, data).study(studies or {})
        return replace(study, file=path.name, toml=read_text(path, LONGEST_TOML))
    except (ValueError, TypeError) as error:
        raise ValueError(brief(f"{path}: {error}")) from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
