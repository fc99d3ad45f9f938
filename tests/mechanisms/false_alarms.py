"""How often claims are said to hold of models that are uninformed: untrained and shuffled ones, on every task.

`python -m tests.mechanisms.false_alarms --write` measures it and puts the table into `docs/false-alarms.md`. A verdict
that errs as often as it states makes no more alarms than the last column says, in 99 of 100 such tables per row.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from scipy.stats import binom

from tests.tables_in_docs import put
from workbench.benchmark import subjects
from workbench.benchmark.subjects import Planted
from workbench.benchmark.subjects.chains import CHAINS
from workbench.inspection import Inspected, inspect_run
from workbench.inspection.judged import judgements
from workbench.judgement.claim import Judgement
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import where_in_words
from workbench.models import Decoder, DecoderConfig
from workbench.models.compiled import sorter
from workbench.runs import Run, save_run
from workbench.tasks import Task, make
from workbench.util.seeds import generator

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "false-alarms.md"
CLAIMS, TRAPS = "claims", "traps"  # the tables
MODELS = 20
SEQUENCES = 64
STATED = 0.05  # of each verdict: how often it may be said of a model that is uninformed
LOUD = 10.0  # times a shuffled model's weights
KINDS = ("untrained", "shuffled", "shuffled × 10")
TASKS: dict[str, dict[str, Any]] = {
    "pointer_chain": {"n": 16, "k": 4},
    "property_chain": {"n": 12, "k": 3},
    "boxes": {"n_boxes": 3, "n_objects": 12, "min_operations": 2, "max_operations": 4},
    "box_moves": {"n_boxes": 3, "n_filled": 2, "min_moves": 1, "max_moves": 3},
    "sorting": {"q": 8, "max_length": 8},
    "increment": {"max_length": 6, "test_max_length": 8},
    "multiplication": {"digits": 3},
    "arithmetic": {"operators": 3},
    "lis": {"length": 8, "min_length": 5, "values": 40},
    "text": {"block": 32},
    "modular_addition": {"p": 23},
    "associative_recall": {"d_vocab": 16, "length": 16, "pairs": 2},
    "induction": {"q": 12, "max_length": 8},
    "state_tracking": {"states_of": "S3", "length": 6},
    "dyck": {"length": 12},
}
CHACAL = ("pointer_chain", "property_chain", "boxes")  # tasks whose models have ChaCAL in every layer

Judge = Callable[[Inspected, str], bool]
"""Whether something is said of a claim (a name in `MECHANISMS`) of a run, at any place where it is read."""


def holds(found: Inspected, claim: str) -> bool:
    return any(one.beyond for one in judgements(found, claim))


def needed(found: Inspected, claim: str) -> bool:
    return any(one.needed for one in judgements(found, claim))


def both(found: Inspected, claim: str) -> bool:
    """At one place."""
    return any(one.beyond and one.needed for one in judgements(found, claim))


JUDGES: dict[str, Judge] = {"beyond its controls": holds, "needed": needed, "both, at one place": both}


@dataclass(frozen=True)
class Row:
    """One claim on one task.

    Attributes:
        models: null models on which the claim can be tested.
        alarms: what is said -> of how many it is said.
    """

    task: str
    claim: str
    models: int
    alarms: dict[str, int]

    @property
    def most(self) -> int:
        """The most alarms that a verdict which errs as often as stated makes, in 99 cases of 100."""
        return most_of(self.models)


def most_of(models: int) -> int:
    return int(binom.ppf(0.99, models, STATED))


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


def rows(
    judges: Mapping[str, Judge] = JUDGES,
    *,
    tasks: Sequence[str] = tuple(TASKS),
    n: int = MODELS,
    progress: bool = False,
) -> list[Row]:
    """The table: a row for each claim that can be tested on a task's null models."""
    counted: dict[tuple[str, str], list[list[bool]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        runs = ((name, run) for name in tasks for run in null_runs(name, n, Path(folder)))
        total = len(tasks) * n
        bar = track(runs, "null models", total=total, console=Console(stderr=True), disable=not progress)
        for number, (name, run) in enumerate(bar):
            found = inspected(run, number)
            for claim in found:
                counted.setdefault((name, claim), []).append([judge(found, claim) for judge in judges.values()])
    return [
        Row(task, claim, len(said), dict(zip(judges, map(sum, zip(*said, strict=True)), strict=True)))
        for (task, claim), said in counted.items()
    ]


def table(found: Sequence[Row], n: int = MODELS) -> str:
    """The rows in Markdown."""
    judges = list(found[0].alarms)
    heads = ["task", "claim", "null models", *judges, "expected at most", "at most, in 99 of 100"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for row in found:
        cells = [row.task, row.claim.replace("_", " "), row.models, *row.alarms.values(), f"{STATED * row.models:g}"]
        lines.append(f"| {' | '.join(map(str, cells))} | {row.most} |")
    models = sum(row.models for row in found)
    totals = [sum(row.alarms[judge] for row in found) for judge in judges]
    cells = ["all", "", models, *totals, f"{STATED * models:g}", most_of(models)]
    lines.append(f"| {' | '.join(map(str, cells))} |")
    without = [name for name in TASKS if name not in {row.task for row in found}]
    lines += ["", f"No claim can be tested on: {', '.join(without) or 'none'}."]
    lines += [f"{n} null models a task ({', '.join(KINDS)}, by turns), {SEQUENCES} sequences each."]
    return "\n".join(lines)


def traps() -> str:
    """What is said of every planted trap about chains, and of the sorter in two bases, in Markdown."""
    heads = ["trap", "what is true", "claim, in which head", "beyond its controls", "needed", "smallest set of heads"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, make_trap in CHAINS.items():
        found = inspect_run(subjects.make(name), n=SEQUENCES, seed=0, only=["chain_following"])  # type: ignore[arg-type]
        lines.append(_trap(name.replace("_", " "), (make_trap.__doc__ or "").strip(), found, "chain_following"))
    for turned in (None, 1):
        task = make("sorting", **TASKS["sorting"])
        trap = Planted("sorter", sorter(TASKS["sorting"]["q"], turned, task.n_ctx, pad=True), task)
        found = inspect_run(trap, n=SEQUENCES, seed=0, only=["minimum", "successor"], conditions=({},))  # type: ignore[arg-type]
        what = "compiled sorter" if turned is None else "the same in a rotated basis"
        lines += [_trap(what, "It sorts as Theorem 5.1 says.", found, claim) for claim in ("minimum", "successor")]
    return "\n".join(lines)


def _trap(name: str, truth: str, found: Inspected, claim: str) -> str:
    judged = judgements(found, claim)
    said = [", ".join(dict.fromkeys(str(of(one)) for one in judged)) for of in (_holds, lambda one: one.need)]
    own = claim.replace("_", " ")
    needed = None if (test := found[claim].causal) is None else test.needed
    own += "" if found.head is None or needed is None else f", {where_in_words([found.head])}"
    heads = "–" if needed is None else where_in_words(needed.heads) if needed.heads else "none"
    return f"| {' | '.join([name, truth, own, *said, heads])} |"


def _holds(one: Judgement) -> str:
    return f"{one.often}, {one.against}"


def write(text: str, path: Path = DOCS, name: str = CLAIMS) -> None:
    """Put a table into the docs. Raises ValueError if they have no place for it."""
    put(name, f"\n{text}\n\n", path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--models", type=int, default=MODELS, help="null models of each task")
    parser.add_argument("--write", action="store_true", help=f"put the table into {DOCS.relative_to(ROOT)}")
    given = parser.parse_args(arguments)
    if given.write and (given.tasks != list(TASKS) or given.models != MODELS):
        parser.error("--write is for the whole table: all tasks, and as many models as it says")
    torch.set_num_threads(1)
    planted = traps()
    text = table(rows(tasks=given.tasks, n=given.models, progress=True), given.models)
    if given.write:
        write(text)
        write(planted, name=TRAPS)
    Console().print(f"{text}\n\n{planted}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
