"""Sequences read from a file that `export.write` wrote, or that anyone wrote like it: each is checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import StrictInt, StrictStr, ValidationError
from torch import Tensor

from workbench import tasks
from workbench.tasks import Batch, Task
from workbench.tasks.export import FORMATS, SCHEMA, SHARD, Recipe
from workbench.tasks.split import Split
from workbench.util.files import check_file, open_text, parse_json
from workbench.util.messages import brief, first_problem
from workbench.util.seeds import generator
from workbench.util.strict_settings import Checked


class _Header(Checked):
    """What a file says of its sequences: `Recipe.header`."""

    task: dict[str, Any]
    n: StrictInt
    seed: StrictInt
    split: Split | None
    head: str
    condition: dict[str, StrictInt | StrictStr]

    def recipe(self) -> Recipe:
        return Recipe(tasks.make(self.task), self.n, self.seed, self.split, self.head, self.condition)


def read(path: str | Path) -> tuple[Task, Iterator[Batch]]:
    """Read a file that `write` wrote: the task, and batches of up to `SHARD` sequences, one in memory at a time.

    Raises:
        ValueError: if the file is missing, damaged, or was not written by `write`. Of a damaged sequence, and where
            there are more or fewer than the file states, it is raised, with the line or row, when that is reached.
    """
    path = Path(path)
    check_file(path)
    if path.suffix not in FORMATS:
        raise ValueError(f"data is read from {' or '.join(FORMATS)}, not {path.name!r}")
    rows = _table(path) if path.suffix == ".parquet" else _lines(path)
    try:
        recipe = _Header.model_validate(next(rows)[1]).recipe()
        like = recipe.task.sample(1, generator(0, "shape of targets"), head=recipe.head).targets
    except (KeyError, TypeError, json.JSONDecodeError, UnicodeDecodeError, pa.ArrowException):
        raise ValueError(f"{path} was not written by `workbench data`, or is damaged") from None
    except ValueError as error:
        problem = first_problem(error, _Header) if isinstance(error, ValidationError) else error
        raise ValueError(f"{path} is damaged: its header: {problem}") from None
    return recipe.task, _batches(path, recipe, like, rows)


def _table(path: Path) -> Iterator[tuple[str, Any]]:
    """What a Parquet file says of its sequences, then each of them, and where it stands."""
    number = 0
    with path.open("rb") as file:
        table = pq.ParquetFile(file)
        yield "the header", parse_json((table.schema_arrow.metadata or {})[b"workbench"].decode())
        try:
            for part in table.iter_batches(SHARD):
                for row in part.to_pylist():
                    number += 1
                    yield f"row {number}", row
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is damaged behind row {number}: {error}") from None


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The same of a file of JSON lines."""
    with open_text(path) as file:
        yield "the header", parse_json(file.readline())["workbench"]
        for number, line in enumerate(file, 2):
            try:
                yield f"line {number}", parse_json(line)
            except json.JSONDecodeError:
                raise ValueError(f"{path} is damaged: line {number} is not JSON") from None
            except ValueError as error:
                raise ValueError(f"{path} is damaged: line {number}: {error}") from None


def _batches(path: Path, recipe: Recipe, like: Tensor, rows: Iterable[tuple[str, Any]]) -> Iterator[Batch]:
    """The sequences of a file, each checked; the last ones only when it is known that they are as many as stated.

    Args:
        path: the file.
        recipe: what its header states.
        like: targets of the same task and head.
        rows: each sequence as it was read, and where.
    """
    task, n, sets = recipe.task, recipe.n, like.ndim == 3
    classes = like.shape[2] if sets else task.heads.get(recipe.head, len(task.vocabulary))
    part: list[Batch] = []
    count = 0
    for where, row in rows:
        if len(part) == SHARD:
            yield Batch.cat(part, task.pad)
            part = []
        count += 1
        problem = _problem(row, task, classes, sets)
        if count > n:
            problem = f"the header states {n} sequences, and here is one more"
        if problem is not None:
            raise ValueError(f"{path} is damaged: {where}: {problem}")
        if sets:
            targets = torch.zeros(1, len(row["tokens"]), classes, dtype=torch.bool)
            for position, members in enumerate(row["targets"]):
                targets[0, position, members] = True
        else:
            targets = torch.tensor([row["targets"]])[..., 0]
        part.append(Batch(torch.tensor([row["tokens"]]), targets, torch.tensor([row["loss_mask"]]), recipe.head))
    if count < n:
        raise ValueError(f"{path} is damaged: its header states {n} sequences, and it has {count}")
    yield Batch.cat(part, task.pad)


def _problem(row: Any, task: Task, classes: int, sets: bool) -> str | None:
    """What is wrong with one sequence as it was read, in words; None where nothing is."""
    if not isinstance(row, dict) or set(row) != set(SCHEMA.names):
        return f"it is not an object of {', '.join(SCHEMA.names)}"
    if not all(isinstance(column, list) for column in row.values()):
        return "tokens, targets and loss_mask are lists"
    tokens, targets, mask = (row[name] for name in SCHEMA.names)
    if not len(tokens) == len(targets) == len(mask):
        return f"it has {len(tokens)} tokens, {len(targets)} targets and a loss_mask of {len(mask)}"
    if not 1 <= len(tokens) <= task.n_ctx:
        return f"it has {len(tokens)} tokens, and {task.name} with these settings makes 1 to {task.n_ctx}"
    known = len(task.vocabulary)

    def is_id(value: Any, n: int) -> bool:
        return type(value) is int and 0 <= value < n

    for at, (token, target, scored) in enumerate(zip(tokens, targets, mask, strict=True)):
        if not is_id(token, known):
            return f"token {at} is {brief(repr(token), 40)}, not an id from 0 to {known - 1}"
        if not isinstance(target, list) or not all(is_id(one, classes) for one in target):
            return f"target {at} is {brief(repr(target), 40)}, not a list of classes from 0 to {classes - 1}"
        if len(target) != (len(set(target)) if sets else 1):
            return f"target {at} is {brief(repr(target), 40)}, not {'a set of classes' if sets else 'one class'}"
        if not isinstance(scored, bool):
            return f"loss_mask {at} is {brief(repr(scored), 40)}, not true or false"
    return "it ends with padding" if tokens[-1] == task.pad else None
