"""`workbench data`: print or write a task's sequences."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.fields import parse_fields
from workbench.cli.options import add_out, add_quiet, add_seed, add_where, add_workers, refuse
from workbench.cli.output import say
from workbench.cli.parser import Commands, add_command
from workbench.util.messages import brief
from workbench.util.settings import as_json, parse_condition

if TYPE_CHECKING:
    import pandas as pd

    from workbench.tasks import Batch, Task
    from workbench.tasks.export import Recipe
    from workbench.tasks.split import Split


def add(commands: Commands, name: str) -> None:
    parser = add_command(
        commands,
        name,
        run,
        summary="print or write a task's sequences",
        description="Print a task's sequences as people read them, or write them to a .parquet or .jsonl file; given "
        "such a file, print what is in it. Every setting of the task can be given: --q 9 --hints successor …; "
        "`workbench list tasks` shows them all.",
        usage="TASK|FILE [--count N] [--split train|test] [--out FILE] [--SETTING VALUE …]",
        takes_fields=True,
    )
    parser.add_argument("task", metavar="TASK|FILE", help="a task's name, or a file that this command wrote")
    parser.add_argument("--count", type=int, default=3, help="how many sequences (default: 3)")
    add_seed(parser, "their seed")
    parser.add_argument("--split", choices=("train", "test"), help="one side of the task's split (default: both)")
    parser.add_argument("--head", default="main", help="main, or a hint that the task has (default: main)")
    add_where(parser, "NAME=VALUE", "narrow the draw: length=16")
    add_out(parser, "write them there instead of printing", metavar="FILE")
    add_workers(parser, "processes that draw; the file is the same for any number", 0)
    add_quiet(parser)


def run(options: argparse.Namespace, fields: list[str]) -> None:
    from workbench.tasks.export import FORMATS, stream
    from workbench.tasks.exported import read

    if options.count < 1:
        raise ValueError(f"count must be at least 1, not {options.count}")
    if Path(options.task).suffix in FORMATS:
        if fields:
            raise ValueError(f"{options.task} holds its task's settings already; leave out {fields[0]}")
        drawn = ("seed", "split", "head", "where", "out", "workers")
        refuse(options, drawn, f"is of sequences that are drawn, and {options.task} holds its own")
        task, batches = read(options.task)
    else:
        how = (options.seed, options.split, options.head, parse_condition(options.where))
        recipe = _recipe(options.task, parse_fields(fields), options.count, *how)
        if options.out is not None:
            _write(recipe, options)
            return
        task, batches = recipe.task, stream(recipe, workers=options.workers)
    for text in _texts(options.task, task, batches, options.count):
        say(text)


def _recipe(task: str, settings: Mapping[str, Any], count: int, *how: Any) -> Recipe:
    from workbench.tasks import make
    from workbench.tasks.export import Recipe

    return Recipe(make(task, **settings), count, *how)


def _texts(source: str | Path, task: Task, batches: Iterable[Batch], count: int) -> Iterator[str]:
    """Each sequence with its number, as people read it. Raises ValueError if one of a file's is none of its task."""
    from workbench.tasks.export import FORMATS, show

    number = 0
    for batch in batches:
        for index in range(min(len(batch), count - number)):
            number += 1
            try:
                shown = show(task, batch, index)
            except (ValueError, IndexError, KeyError, RuntimeError, TypeError):
                if Path(source).suffix not in FORMATS:
                    raise
                # a file's tokens are anybody's
                raise ValueError(f"{source} is damaged: sequence {number} is none of {task.name}") from None
            yield f"{number}\n{shown}\n"
        if number == count:
            return


@dataclass(frozen=True)
class Data:
    """Sequences of a task, of a draw or a file: what `data` returns."""

    source: str | Path
    task: Task
    batch: Batch

    @property
    def says(self) -> str:
        """Each sequence as people read it."""
        return "\n".join(_texts(self.source, self.task, [self.batch], len(self.batch)))

    def table(self) -> pd.DataFrame:
        """A row for each sequence: tokens, targets, and which positions are scored."""
        import pandas as pd

        from workbench.tasks.export import rows

        return pd.DataFrame(rows(self.task, self.batch))

    def json(self) -> str:
        """The task and the rows of `table`."""
        task = {"name": self.task.name, **self.task.model_dump(mode="json")}
        return as_json({"task": task, "sequences": self.table().to_dict("records")})


def data(
    task: str | Path,
    count: int = 3,
    *,
    seed: int = 0,
    split: Split | None = None,
    head: str = "main",
    where: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Data:
    """Draw sequences of a task, or read them from a file that `workbench data` wrote.

    Args:
        task: a task's name, or a file, of which the first `count` sequences are read.
        count, seed, split: how many; their seed; and the side of the task's split, `train` or `test`, by default both.
        head, where: the output head whose targets they have; and what narrows the draw, such as `{"length": 16}`.
        settings: of the task.

    Raises:
        ValueError: if there is no such task or file, a setting is wrong, or the file is damaged.
    """
    from workbench.tasks import Batch
    from workbench.tasks.export import FORMATS, stream
    from workbench.tasks.exported import read

    if Path(task).suffix in FORMATS:
        of, batches = read(task)
    else:
        recipe = _recipe(str(task), settings, count, seed, split, head, where or {})
        of, batches = recipe.task, stream(recipe)
    parts, n = [], 0
    for batch in batches:
        parts.append(batch[: count - n])
        if (n := n + len(parts[-1])) == count:
            break
    return Data(task, of, Batch.cat(parts, of.pad))


def _write(recipe: Recipe, options: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    from workbench.tasks.export import write
    from workbench.util.interrupts import Interrupts

    counts = write(recipe, options.out, workers=options.workers)
    bar = Progress(console=Console(stderr=True), disable=options.quiet)
    with Interrupts() as interrupts, closing(counts), bar as progress:
        writing = progress.add_task(escape(f"writing {brief(options.out)}"), total=options.count)
        for written in counts:
            progress.update(writing, completed=written)
            if interrupts.requested and written < options.count:
                raise KeyboardInterrupt
    say(f"wrote {options.count} sequences to {options.out}; `workbench data {options.out}` shows them")
