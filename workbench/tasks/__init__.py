"""What models learn here. A new task is one file with a `Task` and one entry in `TASKS`."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from workbench.lookup import lookup
from workbench.tasks.arithmetic import Arithmetic
from workbench.tasks.base import Batch, Task, Truth, Vocabulary, correct
from workbench.tasks.boxes import Boxes
from workbench.tasks.increment import Increment
from workbench.tasks.lis import LongestIncreasingSubsequence
from workbench.tasks.multiplication import Multiplication
from workbench.tasks.pointer_chain import PointerChain
from workbench.tasks.sorting import Sorting
from workbench.tasks.text import Text
from workbench.validation import one_line

TASKS: dict[str, type[Task]] = {
    "pointer_chain": PointerChain,
    "boxes": Boxes,
    "sorting": Sorting,
    "increment": Increment,
    "multiplication": Multiplication,
    "arithmetic": Arithmetic,
    "lis": LongestIncreasingSubsequence,
    "text": Text,
}


def make(name: str, **settings: Any) -> Task:
    """A task by name.

    Raises:
        ValueError: in one line, if there is no such task, setting or value; the message says what exists.
    """
    kind = lookup(TASKS, name, "task")
    try:
        return kind(**settings)
    except ValidationError as error:
        raise ValueError(f"task {name}: {one_line(error, kind)}") from None


__all__ = ["TASKS", "Batch", "Task", "Truth", "Vocabulary", "correct", "make"]
