"""Export of a task's sequences: as a stream, as a file (the same bytes for any number of workers), and in words.

`exported` reads the files.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from workbench.tasks import Batch, Task, Truth
from workbench.tasks.split import Split
from workbench.tasks.stream import check_workers, in_order
from workbench.util.files import check_free, new_file
from workbench.util.seeds import generator

SHARD = 1024  # sequences
FORMATS = (".parquet", ".jsonl")
SCHEMA = pa.schema(
    [("tokens", pa.list_(pa.int32())), ("targets", pa.list_(pa.list_(pa.int32()))), ("loss_mask", pa.list_(pa.bool_()))]
)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a stream of sequences: the same recipe always gives the same sequences.

    Attributes:
        task: the task.
        n: how many sequences.
        seed: the seed.
        split: the side of the task's split that they are drawn from; None is both.
        head: the output head whose targets they have: `main`, or one of the task's hints.
        condition: narrows the draw, such as to a length.
    """

    task: Task
    n: int
    seed: int = 0
    split: Split | None = None
    head: str = "main"
    condition: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n must be at least 1, not {self.n}")
        self.task.check_condition(self.condition)

    def shard(self, index: int) -> Batch:
        """The sequences from index · SHARD on; they depend on the recipe and the index alone."""
        size = min(SHARD, self.n - index * SHARD)
        draws = generator(self.seed, "data", index)
        return self.task.sample(size, draws, split=self.split, head=self.head, **self.condition)

    def batches(self, workers: int = 0) -> Iterator[Batch]:
        """Batches of up to `SHARD` sequences, in order; only one is in memory at a time.

        Args:
            workers: processes that draw ahead; the sequences are the same for any number.

        Raises:
            ValueError: if the recipe cannot be met.
        """
        return in_order(self.shard, range(-(-self.n // SHARD)), workers)

    def header(self) -> dict[str, Any]:
        """The recipe as plain data, for the header of a file."""
        return {
            "task": {"name": self.task.name, **self.task.model_dump(mode="json")},
            "n": self.n,
            "seed": self.seed,
            "split": self.split,
            "head": self.head,
            "condition": dict(self.condition),
        }


def write(recipe: Recipe, path: str | Path, *, workers: int = 0) -> Generator[int, None, None]:
    """Write a recipe's sequences as Parquet or JSON lines; yields the number written so far, after each batch.

    The file gets its name only when it is complete.

    Raises:
        ValueError: if the name says no known format, the path is taken, workers are fewer than 0, or the recipe cannot
            be met.
    """
    check_workers(workers)
    path = Path(path)
    if path.suffix not in FORMATS:
        raise ValueError(f"data is written as {' or '.join(FORMATS)}, not {path.name!r}")
    if not path.parent.exists():
        raise ValueError(f"there is no folder {path.parent}")
    check_free(path, file=True)
    return _write(recipe, path, workers)


def _write(recipe: Recipe, path: Path, workers: int) -> Generator[int, None, None]:
    header, written = recipe.header(), 0
    with new_file(path) as partial:
        if path.suffix == ".parquet":
            schema = SCHEMA.with_metadata({"workbench": json.dumps(header)})
            # Arrow opens no path but in UTF-8
            with partial.open("wb") as file, pq.ParquetWriter(file, schema) as writer:
                for batch in recipe.batches(workers):
                    writer.write_table(pa.Table.from_pylist(rows(recipe.task, batch), schema=schema))
                    written += len(batch)
                    yield written
        else:
            with partial.open("w", encoding="utf-8") as lines:
                lines.write(json.dumps({"workbench": header}) + "\n")
                for batch in recipe.batches(workers):
                    lines.writelines(json.dumps(row) + "\n" for row in rows(recipe.task, batch))
                    written += len(batch)
                    yield written


def rows(task: Task, batch: Batch) -> list[dict[str, Any]]:
    """A plain row for each sequence, without padding; each target is a list, of one class or of a set of classes."""
    rows = []
    for i, length in enumerate(task.lengths(batch.tokens).tolist()):
        targets = batch.targets[i, :length]
        single = targets.ndim == 1
        sets = [[t] for t in targets.tolist()] if single else [row.nonzero()[:, 0].tolist() for row in targets]
        row = {"tokens": batch.tokens[i, :length].tolist(), "targets": sets}
        rows.append({**row, "loss_mask": batch.loss_mask[i, :length].tolist()})
    return rows


def show(task: Task, batch: Batch, index: int, *, width: int = 100, most_edges: int = 24) -> str:
    """One sequence in words: question, answer, tokens with a ^ under each scored one, and the gold edges."""
    length = int(task.lengths(batch.tokens)[index])
    tokens, mask = batch.tokens[index], batch.loss_mask[index].tolist()
    words = task.words(tokens[:length])
    lines = ["input   " + task.question(tokens)]
    targets = batch.targets[index, :length][batch.loss_mask[index, :length]]
    sets = ["{" + ",".join(task.words(each.nonzero()[:, 0])) + "}" for each in targets] if targets.ndim == 2 else []
    lines.append("answer  " + " ".join(sets or task.words(targets)))
    line, marks = "tokens ", "scored "
    for word, scored in zip(words, mask, strict=False):
        if len(line) + len(word) + 1 > width and line.strip() != "tokens":
            lines += [line, marks]
            line, marks = "       ", "       "
        line += f" {word}"
        marks += " " + ("^" if scored else "·").ljust(len(word))
    lines += [line, marks]
    if batch.head == "main":
        lines += _edges(task.truth(tokens[None, :length]), most_edges)
    return "\n".join(lines)


def _edges(truth: Truth, most: int) -> list[str]:
    lines = []
    for hop in range(1, truth.n_hops + 1):
        pairs = truth.edges[truth.edges[:, 1] == hop][:, 2:].tolist()
        shown = " ".join(f"{query}→{key}" for query, key in pairs[:most])
        more = f" … and {len(pairs) - most} more" if len(pairs) > most else ""
        if pairs:
            lines.append(f"gold edges, hop {hop}: {shown}{more}")
    return lines or ["gold edges: this task has no graph"]
