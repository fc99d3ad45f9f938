"""Everything that is measured of a run: every instrument and mechanism that applies, on held-out data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature

import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import track

from workbench.capture import Capture, Subject, capture
from workbench.instruments import INSTRUMENTS, Measurement, attention_graph, mismatched
from workbench.instruments.projection import top_tokens
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.seeds import generator
from workbench.tasks import Batch, Task

BATCH = 64
MOST_HOPS = 8  # of longer paths the first so many hops are measured


@dataclass(frozen=True)
class Inspected:
    """Everything measured on one run.

    Attributes:
        run: the run.
        measured: instrument or mechanism -> its mean over examples, with interval and n.
        controls: the same measures on activations beside the truth of other examples.
        gold_mass: the resolvent's mass on gold paths, of the head that was best on other data; None without a graph.
        gold_mass_control: the same head's mass on the gold paths of other examples.
        example: a capture of a single sequence, to draw.
        shown_head: the layer and head to draw.
    """

    run: Run
    measured: dict[str, Measurement]
    controls: dict[str, Measurement]
    gold_mass: Measurement | None
    gold_mass_control: Measurement | None
    example: Capture
    shown_head: tuple[int, int]

    def all(self) -> dict[str, Measurement]:
        """Every measurement under the name of its file."""
        found = dict(self.measured) | {f"{name}-control": m for name, m in self.controls.items()}
        if self.gold_mass is not None and self.gold_mass_control is not None:
            found |= {"gold_mass": self.gold_mass, "gold_mass-control": self.gold_mass_control}
        return found | {"example-projection": top_tokens(self.example)}


@torch.no_grad()
def inspect_run(
    run: Run,
    *,
    n: int,
    seed: int,
    step: int | None = None,
    head: tuple[int, int] | None = None,
    progress: bool = False,
) -> Inspected:
    """Measure one run on held-out data, one batch in memory at a time.

    Args:
        run: the run.
        n: sequences for each of the task's test conditions.
        seed: seed of those sequences, which are from the test side of the task's split.
        step: of which checkpoint; by default the end.
        head: the layer and head to show; by default the one with the most mass on gold paths, on other data.
        progress: show a progress bar on standard error.
    """
    subject, hooked = Subject.of(run.model(step), run.task(), run.name), run.hooked(step)
    measures = _measures(subject)
    names = _needed(subject, measures)
    shuffle = generator(seed, "control")
    found: dict[str, list[Measurement]] = {name: [] for name in measures}
    controls: dict[str, list[Measurement]] = {name: [] for name in measures if name != "entropy"}
    batches = list(_test_batches(subject.task, n, seed))
    what = f"inspecting {escape(run.name)}" + ("" if step is None else f" at step {step}")
    for batch in track(batches, what, console=Console(stderr=True), disable=not progress):
        seen = capture(hooked, subject, batch, names)
        unrelated = mismatched(seen, shuffle)
        for name, (_, measure) in measures.items():
            found[name].append(measure(seen))
            if name in controls:
                controls[name].append(measure(unrelated))
    joined = {name: Measurement.join(parts) for name, parts in found.items()}
    joined_controls = {name: Measurement.join(parts) for name, parts in controls.items()}
    best = None
    if "attention_graph" in joined:
        if head is None:
            other = subject.task.sample(BATCH, generator(seed, "selection"), split="test")
            head = attention_graph.best_head(attention_graph.measure(capture(hooked, subject, other, names)))
        best = [attention_graph.gold_mass(m["attention_graph"], head) for m in (joined, joined_controls)]
    return Inspected(
        run=run,
        measured={name: m.mean("example") for name, m in joined.items()},
        controls={name: m.mean("example") for name, m in joined_controls.items()},
        gold_mass=best[0] if best else None,
        gold_mass_control=best[1] if best else None,
        example=capture(hooked, subject, subject.task.sample(1, generator(seed, "example"), split="test"), names),
        shown_head=head or (subject.n_layers - 1, 0),
    )


def hook_names(subject: Subject) -> list[str]:
    """Every hook point that an inspection of this model needs."""
    return _needed(subject, _measures(subject))


Needs = Callable[[Subject], list[str]]
Measure = Callable[[Capture], Measurement]


def _measures(subject: Subject) -> dict[str, tuple[Needs, Measure]]:
    """What applies to this model: instruments (those of the graph only where there is one) and mechanisms."""
    found = subject.task.truth(subject.task.sample(64, generator(0, "hops")).tokens).n_hops
    n_hops = min(found, MOST_HOPS)  # one number for every batch, whatever its own truth has

    def bound(measure: Callable[..., Measurement]) -> Measure:
        return partial(measure, n_hops=n_hops) if "n_hops" in signature(measure).parameters else measure

    measures: dict[str, tuple[Needs, Measure]] = {}
    for name, instrument in INSTRUMENTS.items():
        if n_hops or not name.startswith("attention"):
            measures[name] = (instrument.needs, bound(instrument.measure))
    for name, claim in MECHANISMS.items():
        if claim.why_not(subject) is None:
            measures[name] = (claim.needs, bound(claim.score))
    return measures


def _needed(subject: Subject, measures: Mapping[str, tuple[Needs, Measure]]) -> list[str]:
    return sorted({name for needs, _ in measures.values() for name in needs(subject)})


def _test_batches(task: Task, n: int, seed: int) -> Iterator[Batch]:
    """N held-out sequences for each of the task's test conditions."""
    for condition in task.conditions:
        draws = generator(seed, "inspect", *(f"{key}={value}" for key, value in condition.items()))
        whole = task.sample(n, draws, split="test", **condition)
        for start in range(0, n, BATCH):
            yield whole[start : start + BATCH]
