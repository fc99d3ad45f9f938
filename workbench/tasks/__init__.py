"""The tasks that models learn. A new task is one file with a `Task` and one entry in `TASKS`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from workbench.tasks.accuracy import COUNTED, Unit, correct, predicted, whole
from workbench.tasks.arithmetic import Arithmetic
from workbench.tasks.associative_recall import AssociativeRecall
from workbench.tasks.base import Task
from workbench.tasks.batch import Batch, Truth
from workbench.tasks.box_moves import BoxMoves
from workbench.tasks.boxes import Boxes
from workbench.tasks.dyck import Dyck
from workbench.tasks.increment import Increment
from workbench.tasks.induction import Induction
from workbench.tasks.lis import LongestIncreasingSubsequence
from workbench.tasks.modular_addition import ModularAddition
from workbench.tasks.multiplication import Multiplication
from workbench.tasks.pairs import Pairs
from workbench.tasks.pointer_chain import PointerChain
from workbench.tasks.property_chain import PropertyChain
from workbench.tasks.sequences import SEQUENCES, Sequences, own_sequences
from workbench.tasks.sorting import Sorting
from workbench.tasks.split import counted, distinct, once_each
from workbench.tasks.state_tracking import StateTracking
from workbench.tasks.text import SHIPPED, Text
from workbench.tasks.vocabulary import Vocabulary
from workbench.util.files import check_contents, is_within
from workbench.util.lookup import lookup
from workbench.util.messages import first_problem

TASKS: dict[str, type[Task]] = {
    "pointer_chain": PointerChain,
    "property_chain": PropertyChain,
    "boxes": Boxes,
    "box_moves": BoxMoves,
    "sorting": Sorting,
    "increment": Increment,
    "multiplication": Multiplication,
    "arithmetic": Arithmetic,
    "lis": LongestIncreasingSubsequence,
    "modular_addition": ModularAddition,
    "associative_recall": AssociativeRecall,
    "induction": Induction,
    "state_tracking": StateTracking,
    "dyck": Dyck,
    "text": Text,
}

OF_OWN_MODELS: dict[str, type[Task]] = {Sequences.name: Sequences}
"""What models of one's own are inspected on where it is none of `TASKS`: nobody trains on it here."""


TEXTS = "WORKBENCH_TEXTS"  # an environment variable: the folders in which texts may be read


def make(task: str | Mapping[str, Any], /, **settings: Any) -> Task:
    """A task by its name and settings, or of a mapping of these: `{"name": ..., setting: value, ...}`.

    Raises:
        ValueError: in one line, if there is no such task, setting or value, or no name; the message says what exists.
    """
    if isinstance(task, Mapping) and "name" not in task:
        raise ValueError(f"task needs a name; there is: {', '.join(TASKS)}")
    named = task if isinstance(task, Mapping) else {"name": task}
    name, settings = named["name"], {key: value for key, value in named.items() if key != "name"} | settings
    kind = lookup(OF_OWN_MODELS if name in list(OF_OWN_MODELS) else TASKS, name, "task")
    try:
        return kind(**settings)
    except ValidationError as error:
        raise ValueError(f"task {name}: {first_problem(error, kind)}") from None


def files_of(task: Mapping[str, Any]) -> list[str]:
    """The files of this machine that a task reads, without texts that come along; empty for a task that there is not.

    Args:
        task: its name and settings, unchecked: making the task would already open the files.
    """
    kind = (TASKS | OF_OWN_MODELS).get(str(task.get("name")))
    values = (task.get(setting) for setting in kind.files) if kind else ()
    paths = [path for value in values for path in (value if isinstance(value, list | tuple) else [value])]
    shipped = {*SHIPPED, *map(str, SHIPPED.values())}
    return [path for path in paths if path and str(path) not in shipped]


def check_files(task: Mapping[str, Any], run: Path) -> None:
    """Refuse a task that reads files elsewhere than beside the run folder: a stranger may have named them.

    The environment variable `WORKBENCH_TEXTS` lists folders in which the user's own texts may be read too.

    Args:
        task: its name and settings, unchecked.
        run: the run folder.

    Raises:
        ValueError: naming the file.
    """
    beside = Path(os.path.realpath(run)).parent
    allowed = [str(beside), *filter(None, os.environ.get(TEXTS, "").split(os.pathsep))]
    for path in files_of(task):
        if not isinstance(path, str):
            continue  # making the task says what is wrong with it
        if not is_within(Path(path), *allowed):
            raise ValueError(f"{task['name']} reads {path}, which is not in {beside}; allow its folder with {TEXTS}=…")
        if Path(path).is_dir():
            check_contents(Path(path))


__all__ = [
    "COUNTED",
    "SEQUENCES",
    "TASKS",
    "TEXTS",
    "Batch",
    "Pairs",
    "Sequences",
    "Task",
    "Truth",
    "Unit",
    "Vocabulary",
    "check_files",
    "correct",
    "counted",
    "distinct",
    "files_of",
    "make",
    "once_each",
    "own_sequences",
    "predicted",
    "whole",
]
