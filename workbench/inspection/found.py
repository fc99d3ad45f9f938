"""What was found of a run: measured part by part, and kept beside its weights once all is.

`found.json` in a run folder holds judgements as numbers and counts, how they were measured and the checksum of the
weights; of other weights it says nothing. So the first page of the explorer says what was found before anything is
measured again, in the words of today.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self, cast

from pydantic import BaseModel, ConfigDict, Field

from workbench.inspection.findings import findings
from workbench.inspection.one_run import inspect_run
from workbench.inspection.result import Inspected
from workbench.inspection.seed_groups import seed_groups
from workbench.judgement.findings import Findings
from workbench.judgement.words.findings import at_a_glance, focus, how_sure, statements
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.runs.new_run import HeldRun
from workbench.runs.weights import WEIGHTS
from workbench.tasks import Task
from workbench.util.distribution import version
from workbench.util.files import read_metadata, read_object, write_atomically

FOUND = "found.json"
LONGEST = 500_000  # characters of that file
MOST, FEWEST = 128, 8  # sequences drawn, of all the task's conditions together
NUMBERS = 2**21  # of one head's patterns of all these sequences, so that long ones are measured in seconds
SEED = 0
BESIDE = ("overall", "accuracy", "gold_mass", "entropy")  # measured beside the claims

FIRST = "on held-out sequences"
PARTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("how often its claims hold, beside re-initialised models", {"only": BESIDE[:2], "nulls": (), "causal": False}),
    ("whether its answers need what is claimed", {"only": [*BESIDE, *MECHANISMS], "causal": False}),
    ("", {"only": [*BESIDE, *MECHANISMS]}),
)
"""What is measured, part by part, and what comes after each: the first takes a tenth of a second, the last minutes."""


@dataclass(frozen=True)
class Found:
    """What was measured of a run on held-out sequences.

    Attributes:
        inspected: what was measured.
        settings: how it was measured: arguments of `inspect_run`.
        to_come: what is measured next, as in `Measuring whether …`; empty if this is all.
    """

    inspected: Inspected
    settings: dict[str, Any] = field(default_factory=dict)
    to_come: str = ""

    @cached_property
    def findings(self) -> Findings:
        """What can be said of it."""
        return findings(seed_groups([self.inspected])[0])


class Kept(BaseModel):
    """What was found of a run, without what was measured."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="constants")
    run: str = Field(description="the run's name, which its sentences may hold")
    weights: str = Field(description="SHA-256 of the weights")
    made: datetime.date
    workbench: str = Field(description="the version that measured it")
    n: int = Field(description="sequences of each of the task's conditions")
    seed: int
    findings: Findings

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
            findings=found.findings,
        )


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
        yield Found(inspect_run(run, **own, **part, progress=tell or False), own | part, to_come)


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


def keep_if_more(inspected: Sequence[Inspected], n: int, seed: int) -> None:
    """Keep what was found of each run at its end, unless that of as many sequences of each condition is kept."""
    for each in inspected:
        if has_place(each.run) and each.name == each.run.name:
            before = kept(each.run)
            if before is None or before.n < n:
                with suppress(OSError):  # of a folder that is not to be written to
                    keep(Found(each, {"n": n, "seed": seed}))


def kept(run: Run) -> Kept | None:
    """What is kept of a run; None if nothing is, or if it is of other weights or of another name."""
    if not has_place(run) or not (run.path / FOUND).is_file():
        return None
    try:
        found = Kept.model_validate(read_object(run.path / FOUND, LONGEST))
        if (found.run, found.weights) != (run.name, _weights(run)):
            return None
        # Anyone may have written these numbers: can words be made of them, and are its heads there to be shown?
        there, model = found.findings, run.config.model
        names = [claim.claim for claim in there.claims]
        said = [*(statement.text for statement in statements(there)), how_sure([there]), str(focus(there.focus))]
        "".join([*said, *at_a_glance(there)]).encode()  # half of a surrogate pair cannot be shown
        heads = [] if there.focus is None else [there.focus.head, there.focus.needed or there.focus.head]
        known = all(0 <= layer < model.n_layers and 0 <= head < model.n_heads for layer, head in heads)
        return found if known and len(set(names)) == len(names) and set(names) <= set(MECHANISMS) else None
    except (ValueError, LookupError, ArithmeticError, OSError):  # by hand or of another version: it is measured again
        return None


def _weights(run: Run) -> str:
    return read_metadata(run.path / WEIGHTS)["sha256"]
