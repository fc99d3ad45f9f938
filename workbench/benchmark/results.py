"""What came of methods on subjects: one JSON file, and the means of it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError
from rich.table import Table

from workbench.benchmark.questions import Asks
from workbench.benchmark.scoring import SCORES
from workbench.measurement import intervals, numbers
from workbench.report.table import as_text
from workbench.util.distribution import commit, version
from workbench.util.files import check_can_make, read_text, write_atomically
from workbench.util.messages import brief, first_problem
from workbench.util.settings import as_json
from workbench.util.strict_settings import Checked

LARGEST = 2**28  # bytes of results that are read
PACKED = ".gz"  # end of a file's name
WIDE = 160  # letters of a table in a terminal
UNBOUNDED = ("width", "unfaithful")  # what is no share


def _unpacked(path: Path) -> bytes:
    """The bytes that were packed. Raises ValueError, in one line, if they are not, or are too many."""
    try:
        with gzip.open(path) as file:
            data = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is corrupted: {error}") from None
    if len(data) > LARGEST:
        raise ValueError(f"{path} holds more than the {LARGEST:,} bytes that are read")
    return data


class Row(Checked):
    """A method's answer to one question, scored.

    Attributes:
        method, subject, seed: of whom, about what.
        null: by what nothing is true, else empty.
        asks, label: the question.
        values: score -> value, of those that it has.
        failed: what the method raised in place of an answer.
        passes, sequences, seconds, memory: what the answer took: passes through all layers, sequences in them, seconds
            on this machine, and bytes above those before at the highest; none where the system does not tell.
    """

    method: str
    subject: str
    seed: int
    null: str = ""
    asks: Asks
    label: str = ""
    values: dict[str, float] = Field(default_factory=dict)
    failed: str = ""
    passes: float = 0.0
    sequences: float = 0.0
    seconds: float = 0.0
    memory: int | None = None


class Mean(Checked):
    """A score's mean over families, each the mean over its subjects, with its interval of 95 %; none of one family."""

    value: float
    low: float | None
    high: float | None
    families: dict[str, float]
    subjects: int

    def __str__(self) -> str:
        value, low, high = (None if end is None else round(end, 2) for end in (self.value, self.low, self.high))
        assert value is not None
        return f"{numbers.with_interval(value, low, high)} n={len(self.families)}"


class Results(Checked):
    """All rows that there are.

    Attributes:
        format: the form, with its number.
        version, commit: of the workbench that made them.
        done: `method/subject/seed` of what is done, whether or not the method had an answer.
        rows: each answer.
    """

    format: Literal["bench/1"] = "bench/1"
    version: str
    commit: str | None = None
    done: list[str] = Field(default_factory=list)
    rows: list[Row] = Field(default_factory=list)

    @classmethod
    def at(cls, path: Path) -> Results:
        """What is in a file to go on with, or nothing yet.

        Raises:
            ValueError: in one line, if nothing can be made there, or it is of another version of the workbench.
        """
        check_can_make(path)
        if not path.exists():
            return cls(version=version(), commit=commit())
        found = cls.load(path)
        if (found.version, found.commit) != (version(), commit()):
            made = f"{found.version}, {found.commit or 'no commit'}"
            raise ValueError(
                f"{path} was made by another state of the workbench ({made}); give another file with --out"
            )
        return found

    @classmethod
    def load(cls, path: Path) -> Results:
        """What `save` wrote. Raises ValueError, in one line, if it is not there or not of this form."""
        if not path.is_file():
            raise ValueError(f"there are no results at {path}; `workbench bench run` makes them")
        try:
            return cls.model_validate_json(_unpacked(path) if path.suffix == PACKED else read_text(path, LARGEST))
        except ValidationError as error:
            raise ValueError(f"{path}: {first_problem(error, cls)}") from None

    def save(self, path: Path) -> None:
        """Write all as JSON, a row a line, packed where the name ends in `.gz`; the folder is made if there is none."""
        rows = ",\n  ".join(row.model_dump_json(exclude_defaults=True) for row in self.rows)
        head = self.model_dump_json(include={"format", "version", "commit", "done"})
        path.parent.mkdir(parents=True, exist_ok=True)
        data = f'{head[:-1]},\n "rows": [\n  {rows}\n]}}\n'.encode()
        write_atomically(path, gzip.compress(data, mtime=0) if path.suffix == PACKED else data)

    @classmethod
    def merged(cls, parts: Sequence[Results]) -> Results:
        """Several as one, such as of methods that were changed: what a later one has replaces an earlier's."""
        rows: dict[str, list[Row]] = {}
        for part in parts:
            rows |= {key: [] for key in part.done}
            for row in part.rows:
                rows[f"{row.method}/{row.subject}/{row.seed}"].append(row)
        of = {
            what: ", ".join(dict.fromkeys(str(getattr(part, what)) for part in parts)) for what in ("version", "commit")
        }
        return cls(**of, done=list(rows), rows=[row for each in rows.values() for row in each])

    @property
    def methods(self) -> list[str]:
        """Those that are done, in their order."""
        return list(dict.fromkeys(key.split("/")[0] for key in self.done))

    @property
    def subjects(self) -> dict[str, int]:
        """Family -> how many subjects of it are done."""
        each = dict.fromkeys(key.partition("/")[2] for key in self.done)
        families = [name.split("/")[0] for name in each]
        return {family: families.count(family) for family in dict.fromkeys(families)}

    def mean(self, method: str, name: str, null: str | None = None) -> Mean | None:
        """A score's mean over families; None where the method has none, or there is nothing of the kind.

        Args:
            method, name: of whom, and which of `SCORES`.
            null: of scores in nulls, of one kind of null alone.
        """
        each: dict[str, dict[int, list[float]]] = {}
        for row in self.rows:
            if row.method == method and name in row.values and null in (None, row.null):
                each.setdefault(row.subject, {}).setdefault(row.seed, []).append(row.values[name])
        if not each:
            return None
        families = {f: float(np.mean([np.mean(v) for v in seeds.values()])) for f, seeds in each.items()}
        values = np.array(list(families.values()))
        share = not name.endswith(UNBOUNDED)
        low, high = intervals.graded(values) if share else intervals.bootstrap(values)
        ends = [None if np.isnan(end) else max(0.0, float(end)) for end in (low, high)]
        subjects = sum(map(len, each.values()))
        return Mean(value=float(values.mean()), low=ends[0], high=ends[1], families=families, subjects=subjects)

    def cost(self, method: str) -> dict[str, float]:
        """What a method takes of a subject, all its answers together: the median of each, over subjects."""
        rows = [row for row in self.rows if row.method == method and not row.null and not row.failed]
        frame = pd.DataFrame([row.model_dump() for row in rows])
        if frame.empty:
            return {}
        whole = frame.groupby(["subject", "seed"])
        found = whole[["passes", "sequences", "seconds"]].sum().median().to_dict()
        memory = whole["memory"].max().median()
        return found | ({} if pd.isna(memory) else {"memory": memory})

    def tables(self) -> Iterator[tuple[Asks, list[str], dict[str, list[Mean | None]]]]:
        """Of each question its scores, and of each method that answers it the mean of each."""
        for asks in Asks:
            names = [name for name, score in SCORES.items() if score.asks is asks]
            found = {method: [self.mean(method, name) for name in names] for method in self.methods}
            kept = {method: means for method, means in found.items() if any(means)}
            if kept:
                yield asks, names, kept

    @property
    def failures(self) -> list[str]:
        """What methods raised, once each, with how often."""
        said = [f"{row.method}: {brief(row.failed)}" for row in self.rows if row.failed]
        return [f"{each} ({said.count(each)} times)" for each in dict.fromkeys(said)]

    @property
    def says(self) -> str:
        """A table for each question, in words."""
        parts = []
        for asks, names, found in self.tables():
            table = Table(box=None, pad_edge=False, show_edge=False)
            table.add_column(str(asks), no_wrap=True)
            for name in names:
                table.add_column(SCORES[name].words, justify="right")
            for method, means in found.items():
                table.add_row(method, *("–" if mean is None else str(mean) for mean in means))
            parts.append(as_text(table, WIDE))
        count = f"{sum(self.subjects.values())} subjects of {len(self.subjects)} families"
        read = f"{count}; n counts families, over which the intervals of 95% are; – is what a method does not say"
        return "\n\n".join([*parts, *self.failures, read])

    def table(self) -> pd.DataFrame:
        """A row for each method and score, with its mean, interval, families and subjects."""
        found = [
            {"method": method, "asks": str(asks), "score": name, **mean.model_dump()}
            for asks, names, methods in self.tables()
            for method, means in methods.items()
            for name, mean in zip(names, means, strict=True)
            if mean is not None
        ]
        return pd.DataFrame(found)

    def json(self) -> str:  # type: ignore[override]
        """Every row."""
        rest = self.model_dump(mode="json", exclude_defaults=True)
        return as_json({"format": self.format, **rest})
