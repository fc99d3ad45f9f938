"""Everything that is measured of a run: every instrument and mechanism that applies, with its controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import torch
from jaxtyping import Int
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.inspection.averages import averages
from workbench.inspection.causes import TESTED_DRAWS, make_causal_tests, make_tests_of_nulls, sets_of_heads
from workbench.inspection.measures import MOST_HOPS, Measure, Settings, bound
from workbench.inspection.models import Model, fresh_models, measure_fresh, shuffled_models
from workbench.inspection.result import Inspected
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual.projection import from_embedding
from workbench.instruments.weights.basis_overlap import basis_overlap
from workbench.interventions import Head
from workbench.measurement.controls import CONTROLS, UNTRAINED
from workbench.mechanisms import MECHANISMS
from workbench.runs import Run
from workbench.tasks import Batch, Task, once_each
from workbench.util.lookup import tell_apart
from workbench.util.messages import harmless
from workbench.util.seeds import generator

BATCH = 64
TESTED = 64  # sequences of each condition that causal tests are made on
FRESH = (8, 32, 160)  # and that models with fresh weights are run on, of which there are several: least, most, in all
MOST_TOKENS = 4096  # of larger vocabularies pairs of tokens are not looked at

__all__ = [
    "MOST_HOPS",
    "Inspected",
    "Settings",
    "hook_names",
    "inspect_run",
    "labels",
    "see",
    "test_batches",
]


@torch.no_grad()
def inspect_run(
    run: Run,
    *,
    n: int,
    seed: int,
    name: str | None = None,
    only: Sequence[str] = (),
    settings: Settings | None = None,
    step: int | None = None,
    head: Head | None = None,
    nulls: Sequence[str] = tuple(CONTROLS),
    causal: bool = True,
    conditions: Sequence[Mapping[str, Any]] | None = None,
    progress: bool = False,
) -> Inspected:
    """Measure one run on held-out data, one batch in memory at a time.

    Args:
        run: the run.
        n: sequences to draw for each of the task's test conditions; one that was drawn before is left out.
        seed: seed of those sequences, which are from the test side of the task's split.
        name: what to call the run; by default its folder's name.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: those of instruments and mechanisms that are not the default ones: `{"entropy": {"alpha": 2}}`.
        step: of which checkpoint; by default the end.
        head: the layer and head to show; by default the one with the most mass on gold paths, on other data.
        nulls: controls to make, of those that each instrument and mechanism has; `untrained` is several models with
            fresh weights, on 8 to 32 sequences of each condition.
        causal: make the mechanisms' causal tests too; where `untrained` is a control also of models that know nothing,
            some with fresh weights and some with the run's own weights shuffled.
        conditions: those of the task's test conditions to measure on; by default all (`task.conditions`).
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if there is no such instrument or mechanism, or it has no such setting.
    """
    model, task, name = run.model(step), run.task(), name or run.name
    subject = Subject.of(model, task, name)
    measures, left_out = bound(subject, only, settings or {})
    for one in measures:
        one.controls = [null for null in one.controls if null in nulls]
        one.fit(None, model, subject, seed)
    names = _needed(subject, measures)
    other = None
    if {*names} & {*attention_graph.needs(subject)} and attention_graph.why_not(subject) is None:
        # From the training side: of a task with few questions, a second draw from the test side has the same ones.
        other = once_each(task, task.sample(BATCH, generator(seed, "selection"), split="train"))
    own = Model.of(model, subject, other, head)
    fresh = fresh_models(model, subject, measures, other, (seed, run.config.seed))
    nothing: list[Model] = []
    if causal and any(one.name in MECHANISMS and one.n_draws for one in measures):
        mixed = shuffled_models(model, subject, other, TESTED_DRAWS, (seed, run.config.seed))
        nothing = [*fresh[:TESTED_DRAWS], *mixed]
    control_draws = generator(seed, "control")
    measured_on: list[dict[str, Any]] = []
    sequences: list[Int[Tensor, " pos"]] = []
    digest = sha256()
    conditions = list(task.conditions if conditions is None else conditions)
    batches = list(test_batches(task, n, seed, conditions))
    least, most, in_all = FRESH
    n_fresh = min(most, max(least, in_all // max(1, len({str(condition) for condition, _, _ in batches}))))
    what = f"inspecting {escape(name)}" + ("" if step is None else f" at step {step}")
    sets = sets_of_heads(measures, own, other, seed) if causal else {}
    for condition, number, batch in track(batches, what, console=Console(stderr=True), disable=not progress):
        measured_on += [condition] * len(batch)
        sequences += [row[:end] for row, end in zip(batch.tokens, task.lengths(batch.tokens).tolist(), strict=True)]
        digest.update(batch.tokens.numpy().tobytes())
        seen = capture(own.hooked, subject, batch, names)
        under = {
            null: control.of_capture(seen, control_draws)
            for null, control in CONTROLS.items()
            if control.of_capture is not None and any(null in m.controls for m in measures)
        }
        for one in measures:
            one.found.append(one.measure(seen))
            for null in one.controls:
                if null != UNTRAINED:
                    one.keep(null, one.measure(under[null]), condition)
        if number == 0:
            few = batch[:n_fresh]
            measure_fresh(fresh, measures, few, names, condition)
            if causal:
                make_tests_of_nulls(measures, nothing, few, seed)
        if causal and number * BATCH < TESTED:
            make_causal_tests(measures, own, sets, batch, seed)
    return Inspected(
        run=run,
        name=name,
        conditions=measured_on,
        sequences=sequences,
        drawn=n * len(conditions),
        fingerprint=digest.hexdigest(),
        left_out=left_out,
        bases=basis_overlap(subject) if len(subject.encoder) <= MOST_TOKENS else None,
        example=capture(own.hooked, subject, task.sample(1, generator(seed, "example"), split="test"), names),
        shown_head=own.head,
        **averages(measures, own, fresh, sets, {"drawn": n * len(conditions), "distinct": len(sequences)}),
    )


def see(run: Run, batch: Batch, *, step: int | None = None) -> Capture:
    """Everything that instruments, mechanisms and figures need of a run, captured on one batch.

    Args:
        run: the run.
        batch: what to run on: `run.task().parse("5 3 3 9")`, or `run.task().sample(…)`.
        step: of which checkpoint; by default the end.
    """
    model = run.model(step)
    subject = Subject.of(model, run.task(), run.name_at(step))
    from workbench.models.hooked import hook

    return capture(hook(model), subject, batch, hook_names(subject))


def hook_names(subject: Subject) -> list[str]:
    """Every hook point that an inspection of this model needs."""
    return _needed(subject, bound(subject, (), {})[0])


def _needed(subject: Subject, measures: Sequence[Measure]) -> list[str]:
    """What the measures need, and what the example's projections do."""
    return sorted({*from_embedding(subject), *(name for one in measures for name in one.thing.needs(subject))})


def test_batches(
    task: Task, n: int, seed: int, conditions: Sequence[Mapping[str, Any]] | None = None
) -> Iterator[tuple[dict[str, Any], int, Batch]]:
    """The distinct ones of n held-out sequences for each of the task's test conditions.

    Each batch with its condition and its number.
    """
    for condition in map(dict, task.conditions if conditions is None else conditions):
        draws = generator(seed, "inspect", *(f"{key}={value}" for key, value in condition.items()))
        whole = once_each(task, task.sample(n, draws, split="test", **condition))
        for number, start in enumerate(range(0, len(whole), BATCH)):
            yield condition, number, whole[start : start + BATCH]


def labels(opened: Sequence[Run]) -> list[str]:
    """A name for each run: its folder's, with as many of the folders above as tell them apart.

    Of names that a file system or a terminal may take for one (`run`, `Run`), the later ones have a number.

    Raises:
        ValueError: if a run is there twice.
    """
    parts = [run.path.resolve().parts[1:] for run in opened]
    if len(set(parts)) < len(parts):
        raise ValueError(f"a run was named twice; these are {', '.join(run.name for run in opened)}")
    depth = 1
    while len({part[-depth:] for part in parts}) < len(parts):
        depth += 1
    return tell_apart([harmless("/".join(part[-depth:])) for part in parts])
