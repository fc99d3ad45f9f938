"""How often claims are said to hold of models that know nothing: untrained and shuffled ones, on every task.

`python -m tests.mechanisms.false_alarms --write` measures it and puts the table into `docs/false-alarms.md`. A verdict
that errs as often as it states makes no more alarms than the last column says, in 99 of 100 such tables per row.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from scipy.stats import binom

from workbench.inspection import Inspected, inspect_run
from workbench.mechanisms import MECHANISMS
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import sorter
from workbench.models.nulls import shuffled, untrained
from workbench.runs import Run, save_run
from workbench.seeds import generator
from workbench.tasks import Task, make

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "false-alarms.md"
BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
MODELS = 20
SEQUENCES = 64
STATED = 0.05  # of the verdict: how often it may call a claim held that does not hold
LOUD = 10.0  # times a shuffled model's weights
KINDS = ("untrained", "shuffled", "shuffled × 10")
TASKS: dict[str, dict[str, Any]] = {
    "pointer_chain": {"n": 16, "k": 4},
    "boxes": {"n_boxes": 3, "n_objects": 12, "min_operations": 2, "max_operations": 4},
    "sorting": {"q": 8, "max_length": 8},
    "increment": {"max_length": 6, "test_max_length": 8},
    "multiplication": {"digits": 3},
    "arithmetic": {"operators": 3},
    "lis": {"length": 8, "min_length": 5, "values": 40},
    "text": {"block": 32},
}
CHACAL = ("pointer_chain", "boxes")  # tasks whose models have ChaCAL in every layer

Verdict = Callable[[Inspected, str], bool]
"""Whether a claim (a name in `MECHANISMS`) is said to hold of a run."""


@dataclass(frozen=True)
class Row:
    """One claim on one task.

    Attributes:
        models: null models on which the claim can be tested.
        alarms: of how many it is said to hold.
    """

    task: str
    claim: str
    models: int
    alarms: int

    @property
    def most(self) -> int:
        """The most alarms that a verdict which errs as often as stated makes, in 99 cases of 100."""
        return int(binom.ppf(0.99, self.models, STATED))


def small(name: str, folder: Path) -> Task:
    """The task in the size of these tests; of a text, the front page of this project, copied beside the runs."""
    settings = dict(TASKS[name])
    if name == "text":
        path = folder / "text.txt"
        path.write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
        settings["path"] = str(path)
    return make(name, **settings)


def base(task: Task, seed: int) -> Decoder:
    """What is shuffled or drawn anew: the compiled sorter, whose weights have something to lose, or a small decoder."""
    if task.name == "sorting":
        return sorter(TASKS["sorting"]["q"], seed, task.n_ctx, pad=True)
    variant = "chacal" if task.name in CHACAL else "standard"
    shape = {"n_layers": 2, "d_model": 32, "n_heads": 2, "attention": variant}
    config = DecoderConfig(d_vocab=len(task.vocabulary), n_ctx=task.n_ctx, heads=task.heads, **shape)
    return Decoder(config, generator(seed, "base"))


@torch.no_grad()
def null_model(task: Task, number: int) -> Decoder:
    """The kinds of null take turns."""
    kind, draws = KINDS[number % len(KINDS)], generator(number, "null model")
    model = base(task, number)
    if kind == "untrained":
        return untrained(model, draws)
    mixed = shuffled(model, draws)
    if kind == "shuffled × 10":
        for parameter in mixed.parameters():
            parameter.mul_(LOUD)
    return mixed


def null_runs(name: str, n: int, folder: Path) -> Iterator[Run]:
    """n null models of a task, saved as run folders."""
    task = small(name, folder)
    for number in range(n):
        yield save_run(folder / f"{name}-{number}", null_model(task, number), task)


def inspected(run: Run, seed: int) -> Inspected:
    """Every claim that can be tested, with its controls and its causal test, on sequences as the task draws them."""
    return inspect_run(run, n=SEQUENCES, seed=seed, only=tuple(MECHANISMS), conditions=({},))


def stands_out(found: Inspected, claim: str) -> bool:
    """A rule to begin with: both the score and the causal test stand out, by intervals that do not meet."""
    return score_stands_out(found, claim) and cause_stands_out(found, claim)


def score_stands_out(found: Inspected, claim: str) -> bool:
    """The score's low end is above every control's high end at some place (a point, a layer and head, a hop)."""
    own, controls = found.measured[claim], found.controls[claim].values()
    assert own.low is not None
    beyond = ~np.isnan(own.low)
    for control in controls:
        assert control.high is not None
        beyond &= ~(own.low <= control.high)  # where a control has no value it says nothing
    return bool(beyond.any())


def cause_stands_out(found: Inspected, claim: str) -> bool:
    """The answers that become what is claimed are more often so after the claimed edit than after one elsewhere."""
    causal = found.causal[claim].select(outcome="as claimed")
    claimed, elsewhere = (causal.select(edit=edit) for edit in ("claimed", "elsewhere"))
    assert claimed.low is not None and elsewhere.high is not None
    return bool((claimed.low > elsewhere.high).any())


def rows(
    verdict: Verdict = stands_out, *, tasks: Sequence[str] = tuple(TASKS), n: int = MODELS, progress: bool = False
) -> list[Row]:
    """The table: a row for each claim that can be tested on a task's null models."""
    counted: dict[tuple[str, str], list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = ((name, run) for name in tasks for run in null_runs(name, n, Path(folder)))
        total = len(tasks) * n
        bar = track(runs, "null models", total=total, console=Console(stderr=True), disable=not progress)
        for number, (name, run) in enumerate(bar):
            found = inspected(run, number)
            for claim in found.measured:
                counted.setdefault((name, claim), []).append(verdict(found, claim))
    return [Row(task, claim, len(said), sum(said)) for (task, claim), said in counted.items()]


def table(found: Sequence[Row], n: int = MODELS) -> str:
    """The rows in Markdown."""
    lines = [
        "| task | claim | null models | said to hold | expected | at most, in 99 of 100 |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {row.task} | {row.claim.replace('_', ' ')} | {row.models} | {row.alarms} | {STATED * row.models:g} "
        f"| {row.most} |"
        for row in found
    ]
    without = [name for name in TASKS if name not in {row.task for row in found}]
    models, alarms = sum(row.models for row in found), sum(row.alarms for row in found)
    lines += ["", f"{alarms} of {models} together. No claim can be tested on: {', '.join(without) or 'none'}."]
    lines += [f"{n} null models a task ({', '.join(KINDS)}, by turns), {SEQUENCES} sequences each."]
    return "\n".join(lines)


def write(text: str, path: Path = DOCS) -> None:
    """Put the table between its two marks.

    Raises:
        ValueError: if the file lacks them.
    """
    whole = path.read_text(encoding="utf-8")
    if BEGIN not in whole or END not in whole:
        raise ValueError(f"{path} has no place for the table: {BEGIN} … {END}")
    before, after = whole.split(BEGIN)[0], whole.split(END)[1]
    path.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--models", type=int, default=MODELS, help="null models of each task")
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCS.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    if given.write and (given.tasks != list(TASKS) or given.models != MODELS):
        parser.error("--write is for the whole table: all tasks, and as many models as it says")
    torch.set_num_threads(1)
    text = table(rows(tasks=given.tasks, n=given.models, progress=True), given.models)
    if given.write:
        write(text)
    Console().print(text, markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
