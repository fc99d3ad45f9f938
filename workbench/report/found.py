"""What was found of a run in a few sentences: measured part by part, and kept beside its weights once all is.

`found.json` in a run folder holds the sentences, how they were measured and the checksum of the weights; of other
weights it says nothing. So the first page of the explorer says what was found before anything is measured again.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field

from workbench.inspection import Inspected, inspect_run
from workbench.mechanisms import MECHANISMS
from workbench.report.findings import how_sure
from workbench.report.how_it_works import Statement, head_in_focus, how_it_works
from workbench.report.seed_groups import seed_groups
from workbench.runs import Run
from workbench.runs.own_run import HeldRun
from workbench.runs.weights import WEIGHTS
from workbench.tasks import Task
from workbench.util.distribution import version
from workbench.util.files import parse_json, read_metadata, read_text, write_atomically

FOUND = "found.json"
LONGEST = 50_000  # characters of that file
MOST, FEWEST = 128, 8  # sequences drawn, of all the task's conditions together
NUMBERS = 2**21  # of one head's patterns of all these sequences, so that long ones are measured in seconds
SEED = 0
BESIDE = ("overall", "accuracy", "gold_mass", "entropy")  # measured beside the claims

FIRST = "on held-out sequences"
PARTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("how often its claims hold, beside models that know nothing", {"only": BESIDE[:2], "nulls": (), "causal": False}),
    ("whether its answers need what is claimed", {"only": [*BESIDE, *MECHANISMS], "causal": False}),
    ("", {"only": [*BESIDE, *MECHANISMS]}),
)
"""What is measured, part by part, and what comes after each: the first takes a tenth of a second, the last minutes."""


@dataclass(frozen=True)
class Found:
    """What was measured of a run on held-out sequences, and what can be said of it.

    Attributes:
        inspected: what was measured.
        statements: what can be said.
        sure: how sure one may be of it.
        settings: how it was measured: arguments of `inspect_run`.
        to_come: what is measured next, as in `Measuring whether …`; empty if this is all.
    """

    inspected: Inspected
    statements: Sequence[Statement]
    sure: str
    settings: dict[str, Any] = field(default_factory=dict)
    to_come: str = ""

    @property
    def head(self) -> str | None:
        """Which head is shown first, and what removing it costs."""
        return head_in_focus(self.inspected)


class Kept(BaseModel):
    """What was found of a run, without what was measured; the fields of the same name are those of `Found`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    run: str = Field(description="the run's name, which its sentences may hold")
    weights: str = Field(description="SHA-256 of the weights")
    made: datetime.date
    workbench: str = Field(description="the version that measured it")
    n: int = Field(description="sequences of each of the task's conditions")
    seed: int
    statements: tuple[Statement, ...]
    sure: str
    head: str | None
    needed: tuple[int, int] | None = Field(default=None, description="layer and head that answers need most, by `head`")

    @classmethod
    def of(cls, found: Found) -> Self:
        run = cast(Run, found.inspected.run)
        return cls(
            run=run.name,
            weights=_weights(run),
            made=datetime.date.today(),
            workbench=version(),
            n=found.settings["n"],
            seed=found.settings["seed"],
            statements=tuple(found.statements),
            sure=found.sure,
            head=found.head,
            needed=found.inspected.needed_head,
        )


def at_a_glance(statements: Sequence[Statement]) -> tuple[str, str]:
    """What was found in a line: the most telling claim and its numbers; without a claim, where it collapses."""
    for statement in statements:
        if statement.brief:
            return statement.name, statement.brief
    collapse = [statement.text for statement in statements if "collapse" in statement.chips]
    return "", " ".join(["No claim about how it works holds beyond its controls.", *collapse])


def n_each(task: Task) -> int:
    """Sequences of each of the task's test conditions: fewer where they are long."""
    total = max(FEWEST, min(MOST, NUMBERS // task.n_ctx**2))
    return max(4, total // len(task.conditions))


def find(run: Run, step: int | None = None, tell: Callable[[float], None] | None = None) -> Iterator[Found]:
    """Measure a run, and say what was found: first what is measured in no time, at last everything.

    Args:
        run: a run, or a model that was opened as one.
        step: of a checkpoint.
        tell: is told how much is done of the part that is being measured.

    Raises:
        ValueError: in one line, if the weights cannot be loaded.
    """
    own: dict[str, Any] = {"n": n_each(run.task()), "seed": SEED, "step": step}
    for to_come, part in PARTS:
        inspected = inspect_run(run, **own, **part, progress=tell or False)
        groups = seed_groups([inspected])
        yield Found(inspected, list(how_it_works(groups[0])), how_sure(groups), own | part, to_come)


def has_place(run: Run) -> bool:
    """Whether a run is a folder with weights, beside which something can be kept: a model in memory is none."""
    return not isinstance(run, HeldRun) and (run.path / WEIGHTS).is_file()


def keep(found: Found) -> None:
    """Write what was found of a run at its end beside its weights.

    Raises:
        OSError: where that folder cannot be written to.
    """
    run = cast(Run, found.inspected.run)
    write_atomically(run.path / FOUND, f"{Kept.of(found).model_dump_json(indent=1)}\n".encode())


def kept(run: Run) -> Kept | None:
    """What is kept of a run; None if nothing is, or if it is of other weights or of another name."""
    if not has_place(run) or not (run.path / FOUND).is_file():
        return None
    try:
        found = Kept.model_validate(parse_json(read_text(run.path / FOUND, LONGEST)))
        return found if (found.run, found.weights) == (run.name, _weights(run)) else None
    except (ValueError, KeyError, OSError):  # written by hand or by another version: it is measured again
        return None


def _weights(run: Run) -> str:
    return read_metadata(run.path / WEIGHTS)["sha256"]
