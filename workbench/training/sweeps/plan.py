"""The plan of a sweep file: the name and config of every run, built and checked before anything starts."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from workbench.runs import RunConfig
from workbench.training.presets import PRESETS, preset_config
from workbench.util.files import check_file, read_toml
from workbench.util.lookup import check_name
from workbench.util.messages import brief
from workbench.util.settings import as_text, flat, place
from workbench.util.strict_settings import Checked, checked

LONGEST_NAME = 100
MOST_RUNS = 10_000  # of a sweep: their configs take seconds and some 100 MB to make
RETRIES = 2
RESULTS = "results.parquet"  # beside the run folders


class _Part(Checked):
    """The fields that a sweep file and each of its variants can have; those of a variant win."""

    preset: str | None = None
    task: str | None = Field(None, description="a task to learn, without a preset or in place of the preset's")
    settings: dict[str, Any] = Field(default={})
    grid: dict[str, Any] = Field(default={})

    @field_validator("settings", "grid", mode="before")
    @classmethod
    def _null(cls, value: Any) -> Any:
        """TOML has no null: a value is left to its default by the word, as on the command line."""
        if isinstance(value, Mapping):
            return {name: cls._null(each) for name, each in value.items()}
        if isinstance(value, list):
            return [cls._null(each) for each in value]
        return None if value == "null" else value

    @field_validator("grid", mode="before")
    @classmethod
    def _lists_under_dotted_names(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        grid: dict[str, list[Any] | range] = {}
        for name, values in flat(value):
            if not isinstance(values, list | range) or not values:
                raise ValueError(brief(f"grid.{name} is a list of values, such as [0, 1, 2], not {values!r}"))
            if name in grid:
                raise ValueError(f"grid.{name} is given twice")
            grid[name] = values
        return grid


class _Variant(_Part):
    """One variant of a sweep, with its name."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


class SweepFile(_Part):
    """The fields of a sweep file."""

    variants: tuple[_Variant, ...] = ()
    retries: int = Field(RETRIES, ge=0, description="attempts more, for a run whose worker or node died")

    @staticmethod
    def read(data: Mapping[str, Any]) -> SweepFile:
        """The fields of a sweep file, each of its own type. Raises ValueError in one line if one is wrong."""
        variants = data.get("variants", [])
        if not isinstance(variants, list) or not all(isinstance(block, Mapping) for block in variants):
            raise ValueError("variants are [[variants]] blocks, each with a name")
        numbered = enumerate(variants, 1)
        named = [checked(_Variant, block, f"variant {block.get('name', number)}: ") for number, block in numbered]
        return checked(SweepFile, {**data, "variants": named})


@dataclass(frozen=True)
class Planned:
    """One run of a sweep: the name of its folder, its values of the grid, and its whole config."""

    name: str
    variant: str
    choice: dict[str, Any]
    config: RunConfig


@dataclass(frozen=True)
class Plan:
    """The runs that a sweep file asks for, and how often a lost attempt is repeated."""

    runs: tuple[Planned, ...]
    retries: int


def read_plan(source: str | Path | Mapping[str, Any] | Plan) -> Plan:
    """The runs of a sweep file, or of its fields: every variant with every combination of the grid's values.

    A plan that was read already is taken as it is, such as some of the runs of another.

    Raises:
        ValueError: in one line, if the file or any of its runs is wrong.
    """
    if isinstance(source, Plan):
        return source
    if isinstance(source, Mapping):
        return _plan(source)
    path = Path(source)
    check_file(path, "sweep file")
    data = read_toml(path)
    try:
        return _plan(data)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _plan(data: Mapping[str, Any]) -> Plan:
    file = SweepFile.read(data)
    # A file without variants has one, named after its preset or task: its runs keep their names if it gets others.
    variants = file.variants or (_Variant.model_construct(name=str(file.preset or file.task).replace("/", "-")),)
    count = sum(math.prod(map(len, (file.grid | variant.grid).values())) for variant in variants)
    if count > MOST_RUNS:
        raise ValueError(f"a sweep has {MOST_RUNS:,} runs at most, not {in_digits(count)}; give fewer values or seeds")
    runs = tuple(run for variant in variants for run in _runs_of(file, variant))
    names: set[str] = set()
    configs: dict[str, str] = {}
    for run in runs:
        check_name(run.name, "a run", taken=[RESULTS])
        if run.name.casefold() in names:
            raise ValueError(f"two runs are named {run.name!r}; give each variant, and each value of a grid, once")
        names.add(run.name.casefold())
        same = configs.setdefault(run.config.model_dump_json(), run.name)
        if same != run.name:
            raise ValueError(f"{same!r} and {run.name!r} are the same run: nothing differs between their configs")
    return Plan(runs, file.retries)


def in_digits(count: int) -> str:
    """A count with its thousands apart; of one beyond all measure, of which Python writes no digits, that it is so."""
    return f"{count:,}" if abs(count) < 10**15 else "a number of more than 15 digits"


def _runs_of(file: SweepFile, variant: _Variant) -> Iterator[Planned]:
    preset, task = variant.preset or file.preset, variant.task or file.task
    if preset is None and task is None:
        raise ValueError(f"there is no preset to start from; give preset, one of: {', '.join(PRESETS)}; or a task")
    grid = file.grid | variant.grid
    for values in itertools.product(*grid.values()):
        choice = dict(zip(grid, values, strict=True))
        name = _name(variant.name, choice)
        try:
            overrides: dict[str, Any] = {}
            # Of equal names the last wins; an empty mapping takes nothing away from what was set inside that name.
            for field, value in (*flat(file.settings), *flat(variant.settings), *choice.items()):
                inner, last = place(overrides, field)
                if value != {} or not isinstance(inner.get(last), dict):
                    inner[last] = deepcopy(value)
            if task is not None:
                overrides["task"] = {"name": task, **overrides.get("task", {})}
            yield Planned(name, variant.name, choice, preset_config(preset or None, overrides))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _name(variant: str, choice: Mapping[str, Any]) -> str:
    """The name of a run's folder: its variant and values; a hash replaces what a file name cannot hold."""
    ends = [name.rpartition(".")[2] for name in choice]
    labels = [end if ends.count(end) == 1 else name for name, end in zip(choice, ends, strict=True)]
    text = "-".join(
        [variant, *(f"{label}={as_text(value)}" for label, value in zip(labels, choice.values(), strict=True))]
    )
    safe = re.sub(r"[^A-Za-z0-9._=+-]+", "_", text)
    if safe == text and len(text) <= LONGEST_NAME:
        return text
    return f"{safe[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
