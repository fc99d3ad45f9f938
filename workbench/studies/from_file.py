"""A study of one's own, from a TOML or a Python file outside this repository.

    question = "Does the weight of further hops matter?"
    measure = ["log.accuracy", "path_mass"]     # instruments, `log.FIGURE`, `log.FIGURE over training`, `parameters`
    draw = "accuracy"                           # the quantity that the figure shows: bars, or lines along its dim

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

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from workbench.studies.contrasts import Contrast, Higher, Reaches, StaysBelow
from workbench.studies.figures import by_its_dims
from workbench.studies.measures import by_name
from workbench.studies.study import Published, Source, Study
from workbench.util.files import check_file, read_toml
from workbench.util.messages import brief, first_problem
from workbench.util.plugins import running

SEEDS = 5  # of each group, where the file does not say how many


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ContrastInFile(_Part):
    """A `[[contrasts]]` block."""

    quantity: str
    group: str
    than: str | None = None
    by: float = 0.0
    reaches: float | None = None
    stays_below: float | None = None
    at: dict[str, Any] = {}

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


class PublishedInFile(_Part):
    """A `[[published]]` block."""

    group: str
    quantity: str
    value: float
    at: dict[str, Any] = {}


class StudyFile(_Part):
    """The fields of a study's TOML file."""

    question: str
    measure: list[str] = Field(min_length=1)
    draw: str
    runs: dict[str, dict[str, Any]] = Field(min_length=1)
    contrasts: list[ContrastInFile] = []
    published: list[PublishedInFile] = []
    source: dict[str, str] | None = None
    seeds: dict[str, int] = {}
    because: dict[str, str] = {}
    tune: dict[str, list[Any]] = {}
    less_is_better: list[str] = []
    n: int = Field(256, ge=2)


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
        return _study(data)
    except ValidationError as error:
        raise ValueError(brief(f"{path}: {first_problem(error, StudyFile)}")) from None
    except (ValueError, TypeError) as error:
        raise ValueError(brief(f"{path}: {error}")) from None


def _study(data: Mapping[str, Any]) -> Study:
    file = StudyFile.model_validate(data)
    if unknown := sorted(set(file.seeds) - set(file.runs)):
        raise ValueError(f"seeds are given for scale {unknown[0]!r}; runs has: {', '.join(file.runs)}")
    published = [Published(one.group, one.quantity, one.value, one.at) for one in file.published]
    return Study(
        question=file.question,
        contrasts=[one.contrast() for one in file.contrasts],
        draw=partial(by_its_dims, quantity=file.draw, title=file.question, published=published),
        runs=file.runs,
        measure=by_name(file.measure, file.n),
        source=None if file.source is None else Source(**file.source),
        published=published,
        seeds={scale: file.seeds.get(scale, SEEDS) for scale in file.runs},
        because=file.because,
        tune=file.tune,
        less_is_better=file.less_is_better,
    )
