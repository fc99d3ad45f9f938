"""`workbench data`: print or write a task's sequences."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from workbench.cli.output import say
from workbench.cli.parser import AddCommand, chosen, parse_fields, refuse
from workbench.util.messages import brief
from workbench.util.progress import Interrupts
from workbench.util.settings import as_json
from workbench.util.words import as_it_says

if TYPE_CHECKING:
    import pandas as pd

    from workbench.tasks import Batch, Task
    from workbench.tasks.export import Recipe
    from workbench.tasks.split import Split


def add(command: AddCommand) -> None:
    parser = command(
        summary="print or write a task's sequences",
        description="Print a task's sequences as people read them, or write them to a .parquet or .jsonl file; given "
        "such a file, print what is in it. Every setting of the task can be given: --q 9 --hints successor …; "
        "`workbench list tasks` shows them all.",
        usage="TASK|FILE [--count N] [--split train|test] [--out FILE] [--SETTING VALUE …]",
        takes_fields=True,
    )
    parser.add_argument("task", metavar="TASK|FILE", help="a task's name, or a file that this command wrote")
    parser.add_argument("--count", type=int, default=3, help="how many sequences (default: 3)")
    parser.add_shared("--seed", help="their seed (default: 0)")
    parser.add_argument("--split", choices=("train", "test"), help="one side of the task's split (default: both)")
    parser.add_argument("--head", default="main", help="main, or a hint that the task has (default: main)")
    parser.add_shared("--where", metavar="NAME=VALUE", help="narrow the draw: length=16")
    parser.add_shared("--out", help="write them there instead of printing", metavar="FILE")
    parser.add_shared("--workers", default=0, help="processes that draw; the file is the same for any number")
    parser.add_shared("--quiet")


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.runs.conditions import parse_condition
    from workbench.tasks.export import FORMATS, write

    if Path(options.task).suffix in FORMATS:
        if fields:
            raise ValueError(f"{options.task} holds its task's settings already; leave out {fields[0]}")
        drawn = ("seed", "split", "head", "where", "out", "workers")
        refuse(options, drawn, f"is of sequences that are drawn, and {options.task} holds its own")
    how = chosen(options, "seed", "split", "head", "workers")
    sequences = data(options.task, options.count, where=parse_condition(options.where), **how, **parse_fields(fields))
    if options.out is None:
        for text in sequences.texts():
            say(text)
        return
    assert sequences.recipe is not None
    counts = write(sequences.recipe, options.out, workers=options.workers)
    bar = Progress(console=Console(stderr=True), disable=options.quiet)
    with Interrupts() as interrupts, closing(counts), bar as progress:
        writing = progress.add_task(escape(f"writing {brief(options.out)}"), total=options.count)
        for written in counts:
            progress.update(writing, completed=written)
            if interrupts.requested and written < options.count:
                raise KeyboardInterrupt
    say(f"wrote {options.count} sequences to {options.out}; `workbench data {options.out}` shows them")


@dataclass(frozen=True)
class Data:
    """A task's sequences, which are drawn by a recipe, or read from a file: what `data` returns."""

    source: str | Path
    task: Task
    count: int
    recipe: Recipe | None
    workers: int
    __repr__ = as_it_says

    def __iter__(self) -> Iterator[Batch]:
        """The sequences in batches, of which only one is in memory at a time."""
        from workbench.tasks.exported import read

        left = self.count
        batches = read(self.source)[1] if self.recipe is None else self.recipe.batches(self.workers)
        for batch in batches:
            yield batch[:left]
            if (left := left - len(batch)) <= 0:
                return

    def texts(self) -> Iterator[str]:
        """Each sequence with its number, as people read it. Raises ValueError if one of a file's is none."""
        from workbench.tasks.export import show

        places = ((batch, index) for batch in self for index in range(len(batch)))
        for number, place in enumerate(places, 1):
            try:
                shown = show(self.task, *place)
            except (ValueError, IndexError, KeyError, RuntimeError, TypeError):
                if self.recipe is not None:
                    raise
                # a file's tokens are anybody's
                raise ValueError(f"{self.source} is damaged: sequence {number} is none of {self.task.name}") from None
            yield f"{number}\n{shown}\n"

    @property
    def says(self) -> str:
        return "\n".join(self.texts())

    def table(self) -> pd.DataFrame:
        """A row for each sequence: tokens, targets, and which positions are scored."""
        import pandas as pd

        from workbench.tasks.export import rows

        return pd.DataFrame([row for batch in self for row in rows(self.task, batch)])

    def json(self) -> str:
        return as_json(
            {"task": {"name": self.task.name, **dict(self.task)}, "sequences": self.table().to_dict("records")}
        )


def data(
    task: str | Path,
    /,
    count: int = 3,
    *,
    seed: int = 0,
    split: Split | None = None,
    head: str = "main",
    where: Mapping[str, Any] | None = None,
    workers: int = 0,
    **settings: Any,
) -> Data:
    """Sequences of a task, drawn when they are asked for; or those of a file that `workbench data` wrote.

    Args:
        task: a task's name, or a file, of which the first `count` sequences are read.
        count, seed, split: how many; their seed; and the side of the task's split, `train` or `test`, by default both.
        head, where: the output head whose targets they have; and what narrows the draw, such as `{"length": 16}`.
        workers: processes that draw; the sequences are the same for any number.
        settings: of the task.

    Raises:
        ValueError: if there is no such task or file, a setting is wrong, or the file is damaged.
    """
    from workbench.tasks import make
    from workbench.tasks.export import FORMATS, Recipe
    from workbench.tasks.exported import read

    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    if Path(task).suffix in FORMATS:
        return Data(task, read(task)[0], count, None, workers)
    recipe = Recipe(make(str(task), **settings), count, seed, split, head, where or {})
    return Data(task, recipe.task, count, recipe, workers)
