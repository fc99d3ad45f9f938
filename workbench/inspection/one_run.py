"""One run inspected: every instrument and mechanism that applies, batch by batch, with its controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from workbench.capture import Subject
from workbench.inspection.baseline_models import BATCH, enough_for_one_of_many
from workbench.inspection.measures import Settings, bound
from workbench.inspection.plan import Plan
from workbench.inspection.result import Inspected, Sample
from workbench.instruments.residual.projection import from_embedding
from workbench.interventions import Head
from workbench.measurement.controls import CONTROLS
from workbench.models import OwnModel
from workbench.runs import HeldRun, Run
from workbench.tasks import Batch, Sequences, Task, once_each, own_sequences
from workbench.util.memory import give_back
from workbench.util.progress import interrupted, shown, steps
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

TESTED = 64  # sequences of each condition that causal tests are made on
FRESH = (8, 64, 160)  # and that models with fresh weights are run on, of which there are several: least, most, in all


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
    layers: Sequence[int] | None = None,
    progress: bool | Callable[[float], None] = False,
) -> Inspected:
    """Measure one run on held-out data, one batch in memory at a time.

    Args:
        run, name: the run, and what to call it; by default by its folder.
        n, seed: sequences to draw for each of the task's test conditions, from the test side of its split; one that was
            drawn before is left out. Of sequences of one's own, as many as there are at most.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: those of instruments and mechanisms that are not the default ones: `{"entropy": {"alpha": 2}}`.
        step, head: of which checkpoint, by default the end; the head in focus, by default the one with the most mass on
            gold paths, on other data.
        nulls: controls to make, of those that each instrument and mechanism has (see `measurement.controls`).
        causal: make the mechanisms' causal tests too, also of uninformed models.
        conditions: those of the task's test conditions to measure on; by default all (`task.conditions`).
        layers: the layers to look at, 0-based, where nothing needs all of them, as on a task without a graph.
        progress: tell on standard error how long it takes, where that is long, and let Ctrl-C keep what is measured;
            or what is told, after each batch, the share that is measured.

    Raises:
        ValueError: if there is no such instrument or mechanism, it has no such setting, or with those given it measures
            nothing.
    """
    task, name = run.task(), name or run.name
    conditions = list(task.conditions if conditions is None else conditions)
    n = min(n, task.n_given) if isinstance(task, Sequences) else n
    plan = Plan(run, name, step, head, seed, only, settings or {}, nulls, causal, layers)
    sample = Sample(n * len(conditions))
    batches = list(test_batches(task, n, seed, conditions, plan.size))
    n_fresh = _sequences_for_fresh_models(batches, task)
    what = f"inspecting {name}" + ("" if step is None else f" at step {step}")
    with shown(progress is True):
        for done, (condition, number, batch) in enumerate(steps(batches, what, keep=True), 1):
            sample.add(task, batch, condition)
            plan.measure(batch, condition)
            if number == 0:
                plan.measure_other_models(batch[:n_fresh], condition)
            if number * plan.size < TESTED:
                plan.test(batch)
            give_back()
            if callable(progress):
                progress(done / len(batches))
        if interrupted():
            sample = replace(sample, drawn=len(sample))
    found = (plan.results(sample), sample, plan.not_made(), plan.example(), plan.own.head, plan.fallen())
    return Inspected(run, name, *found, removed=plan.removed)


def inspect_model(
    model: OwnModel | TransformerBridge,
    on: Task | Tensor | Sequence[Tensor],
    *,
    n: int = 256,
    seed: int = 0,
    name: str = "own model",
    **options: Any,
) -> Inspected:
    """Measure a model of one's own in memory; `workbench.report.write` makes a page of the result.

    Args:
        model: the module with a note of where its parts are; or a model that TransformerLens has bridged.
        on: what it is inspected on: a task whose vocabulary is the model's; or token sequences, `[n, pos]` or a list
            of `[pos]` (see `tasks.own_sequences`, which takes words and padding too).
        n, seed, name, options: as in `inspect_run`.

    Raises:
        ValueError: if task and model do not fit, or as `inspect_run` does.
    """
    if not isinstance(model, OwnModel):
        from workbench.models.bridged_model import BridgedModel

        model = BridgedModel(model)
    task = on if isinstance(on, Task) else own_sequences(on, model.config.d_vocab, known=model.known_text)
    return inspect_run(HeldRun.of(model, task, name), n=n, seed=seed, name=name, **options)


def _sequences_for_fresh_models(batches: Sequence[tuple[dict[str, Any], int, Batch]], task: Task) -> int:
    """How many sequences of each condition models with fresh weights are run on: fewer of many conditions or long."""
    least, most, in_all = FRESH
    n_conditions = len({str(condition) for condition, _, _ in batches})
    return min(most, enough_for_one_of_many(task), max(least, in_all // max(1, n_conditions)))


def hook_names(subject: Subject) -> list[str]:
    """Every hook point that an inspection of this model needs, and those of an example's projections."""
    measures, _ = bound(subject, (), {})
    return sorted({*from_embedding(subject), *(name for measure in measures for name in measure.needs(subject))})


def test_batches(
    task: Task, n: int, seed: int, conditions: Sequence[Mapping[str, Any]] | None = None, size: int = BATCH
) -> Iterator[tuple[dict[str, Any], int, Batch]]:
    """The distinct ones of n held-out sequences for each of the task's test conditions.

    Each batch, of `size` sequences at most, with its condition and its number.
    """
    for condition in map(dict, task.conditions if conditions is None else conditions):
        draws = generator(seed, "inspect", *(f"{key}={value}" for key, value in condition.items()))
        distinct = once_each(task, task.sample(n, draws, split="test", **condition))
        for number, start in enumerate(range(0, len(distinct), size)):
            yield condition, number, distinct[start : start + size]
