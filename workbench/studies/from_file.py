"""A study of one's own, from a TOML or a Python file outside this repository.

    question = "Does the weight of further hops matter?"
    measure = ["log.accuracy", "path_mass"]     # instruments, `log.FIGURE`, `log.FIGURE over training`, `parameters`
    draw = "accuracy"                           # the quantity that the figure shows: bars, or lines along its dim
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

import runpy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from workbench.studies.contrasts import Contrast, Higher, Reaches, StaysBelow
from workbench.studies.figures import by_its_dims
from workbench.studies.measures import by_name
from workbench.studies.study import Published, Source, Study
from workbench.util.files import LONGEST_TOML, check_file, read_text, read_toml
from workbench.util.lookup import lookup
from workbench.util.messages import brief
from workbench.util.plugins import running
from workbench.util.strict_settings import Checked, checked

SEEDS = 5  # of each group, where the file does not say how many


class ContrastInFile(Checked):
    """A `[[contrasts]]` block."""

    quantity: str
    group: str
    than: str | None = None
    by: float = 0.0
    reaches: float | None = None
    stays_below: float | None = None
    at: dict[str, Any] = Field(default={})

    def contrast(self) -> Contrast:
        """What it says. Raises ValueError unless it has exactly one of `than`, `reaches` and `stays_below`."""
        if sum(one is not None for one in (self.than, self.reaches, self.stays_below)) != 1:
            raise ValueError(f"a contrast of {self.quantity} has one of than, reaches and stays_below")
        if self.than is not None:
            return Higher(self.quantity, self.group, self.than, self.by, self.at)
        if self.reaches is not None:
            return Reaches(self.quantity, self.group, self.reaches, self.at)
        assert self.stays_below is not None
        return StaysBelow(self.quantity, self.group, self.stays_below, self.at)


class PublishedInFile(Checked):
    """A `[[published]]` block."""

    group: str
    quantity: str
    value: float
    at: dict[str, Any] = Field(default={})


class StudyFile(Checked):
    """The fields of a study's TOML file."""

    question: str = Field(min_length=1)
    measure: list[str] = Field(min_length=1)
    draw: str
    title: str = ""
    runs: dict[str, dict[str, Any]] = Field(min_length=1)
    contrasts: list[ContrastInFile] = Field(default=[])
    published: list[PublishedInFile] = Field(default=[])
    source: Source | None = None
    seeds: dict[str, int] = Field(default={})
    because: dict[str, str] = Field(default={})
    tune: dict[str, list[Any]] = Field(default={})
    less_is_better: list[str] = Field(default=[])
    n: int = Field(256, ge=2)
    note: str = ""


def study_from_file(path: str | Path) -> Study:
    """The study in a TOML or Python file.

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
    else:
        study = _toml(path)
    return replace(study, file=path.name)


def _toml(path: Path) -> Study:
    data = read_toml(path)
    try:
        return replace(_study(data), toml=read_text(path, LONGEST_TOML))
    except (ValueError, TypeError) as error:
        raise ValueError(brief(f"{path}: {error}")) from None


def _study(data: Mapping[str, Any]) -> Study:
    file = checked(StudyFile, data)
    if unknown := sorted(set(file.seeds) - set(file.runs)):
        raise ValueError(f"seeds are given for scale {unknown[0]!r}; runs has: {', '.join(file.runs)}")
    contrasts, measure = [one.contrast() for one in file.contrasts], by_name(file.measure, file.n)
    quantities = [name.removeprefix("log.") for name in file.measure]
    asked = [*(one.quantity for one in file.contrasts), *(one.quantity for one in file.published)]
    for quantity in (file.draw, *asked, *file.less_is_better):
        lookup(dict.fromkeys(quantities), quantity, "quantity")
    published = [Published(one.group, one.quantity, one.value, one.at) for one in file.published]
    return Study(
        question=file.question,
        contrasts=contrasts,
        draw=partial(by_its_dims, quantity=file.draw, title=file.title or file.question, published=published),
        runs=file.runs,
        measure=measure,
        source=file.source,
        published=published,
        seeds={scale: file.seeds.get(scale, SEEDS) for scale in file.runs},
        because=file.because,
        tune=file.tune,
        less_is_better=file.less_is_better,
        note=file.note,
    )
