"""One run inspected: every instrument and mechanism that applies, batch by batch, with its controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from torch import Tensor

from workbench.capture import DECODED, Capture, Subject, capture, seen_without_hooks
from workbench.inspection.averages import result_of
from workbench.inspection.baseline_models import Model, Selection, fresh_models, measure_fresh, shuffled_models
from workbench.inspection.causal_tests import (
    TESTED_DRAWS,
    heads_to_remove,
    make_causal_tests,
    make_tests_of_nulls,
    sets_of_heads,
)
from workbench.inspection.measures import Measure, Settings, bound
from workbench.inspection.result import Inspected, Result, Sample
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual.projection import from_embedding
from workbench.interventions import Head, fallen_without
from workbench.measurement import Measurement
from workbench.measurement.controls import CONTROLS, SHUFFLED, UNTRAINED
from workbench.mechanisms import MECHANISMS
from workbench.models import Decoder, OwnModel
from workbench.runs import HeldRun, Run
from workbench.tasks import Batch, Sequences, Task, once_each, own_sequences
from workbench.util.memory import give_back
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

    from workbench.models.hooked import AnyHooked

BATCH = 64
MEMORY = 2**28  # bytes that a batch may take; controls and what is measured of it take as much again, or twice
NUMBERS = 2**20  # of one head's patterns of the sequences on which heads are chosen
SOLVING = 2**27  # steps of solving one head's patterns, as ChaCAL does, of the sequences that fresh models are run on
DECODED_BYTES = 16  # for each position and token of the vocabulary: the output, and copies of it, in float32
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
        run: the run.
        n: sequences to draw for each of the task's test conditions; one that was drawn before is left out. Of sequences
            of one's own, as many as there are at most.
        seed: seed of those sequences, which are from the test side of the task's split.
        name: what to call the run; by default its folder's name.
        only: instruments and mechanisms to measure; by default all that apply.
        settings: those of instruments and mechanisms that are not the default ones: `{"entropy": {"alpha": 2}}`.
        step: of which checkpoint; by default the end.
        head: the layer and head in focus; by default the one with the most mass on gold paths, on other data.
        nulls: controls to make, of those that each instrument and mechanism has (see `measurement.controls`).
        causal: make the mechanisms' causal tests too, also of uninformed models.
        conditions: those of the task's test conditions to measure on; by default all (`task.conditions`).
        layers: the layers to look at, 0-based, where nothing needs all of them, as on a task without a graph.
        progress: show a progress bar on standard error; or what is told, after each batch, the share that is measured.

    Raises:
        ValueError: if there is no such instrument or mechanism, it has no such setting, or with those given it measures
            nothing.
    """
    task, name = run.task(), name or run.name
    conditions = list(task.conditions if conditions is None else conditions)
    n = min(n, task.n_given) if isinstance(task, Sequences) else n
    plan = Plan.of(run, name, step, head, seed, only, settings or {}, nulls, causal, layers)
    sample = Sample(n * len(conditions))
    batches = list(test_batches(task, n, seed, conditions, plan.size))
    n_fresh = sequences_for_fresh_models(batches, task)
    what = f"inspecting {name}" + ("" if step is None else f" at step {step}")
    for condition, number, batch in shown(batches, what, progress):
        sample.add(task, batch, condition)
        plan.measure(batch, condition)
        if number == 0:
            plan.measure_other_models(batch[:n_fresh], condition)
        if number * plan.size < TESTED:
            plan.test(batch)
        give_back()
    results, own = plan.results(sample), plan.own
    check_settings(results, settings or {})
    return Inspected(
        run, name, results, sample, plan.not_made(), plan.example(), own.head, plan.fallen(), removed=plan.removed
    )


def check_settings(results: Mapping[str, Result], settings: Settings) -> None:
    """Raise ValueError if a measure has no number at all with the settings that were given for it."""
    for name, given in settings.items():
        if given and name in results and np.isnan(results[name].mean.values).all():
            values = ", ".join(f"{key}={value!r}" for key, value in given.items())
            raise ValueError(f"{name} with {values} measures nothing on these sequences; give other settings")


T = TypeVar("T")


def shown(batches: Sequence[T], what: str, progress: bool | Callable[[float], None]) -> Iterator[T]:
    """The batches one by one, with a progress bar on standard error, or the share that is done told after each."""
    bar = track(batches, escape(what), console=Console(stderr=True), disable=progress is not True)
    for done, batch in enumerate(bar, 1):
        yield batch
        if callable(progress):
            progress(done / len(batches))


@cache
def can_hook() -> bool:
    """Whether TransformerLens is there; a machine that only trains may lack it."""
    try:
        import transformer_lens  # noqa: F401
    except ImportError:
        return False
    return True


@dataclass
class Plan:
    """The measures to take of a run, and the models to take them of.

    Attributes:
        measures: instruments and mechanisms, each with its measurements so far.
        left_out: instrument or mechanism that does not apply -> the reason.
        names: the hook points that they need.
        own: the run's model, with the head in focus.
        fresh: models with fresh weights.
        uninformed: kind -> uninformed models for causal tests: some of the fresh ones, and some with shuffled weights.
        needed: claim about heads -> the smallest set of heads whose edit loses the answers.
        removed: the heads that are removed, one at a time, to see how many right answers change.
        seed: of the inspection.
        causal: whether causal tests are made.
    """

    measures: list[Measure]
    left_out: dict[str, str]
    names: list[str]
    own: Model
    fresh: list[Model]
    uninformed: dict[str, list[Model]]
    needed: dict[str, tuple[Head, ...]]
    removed: tuple[Head, ...]
    seed: int
    causal: bool

    def __post_init__(self) -> None:
        self.control_draws = generator(self.seed, "control")
        self.without: list[Measurement] = []  # the removed heads, one for each batch

    @staticmethod
    def of(
        run: Run,
        name: str,
        step: int | None,
        head: Head | None,
        seed: int,
        only: Sequence[str],
        settings: Settings,
        nulls: Sequence[str],
        causal: bool,
        layers: Sequence[int] | None = None,
    ) -> Plan:
        """The plan for one run, with models loaded and heads chosen; the arguments are those of `inspect_run`."""
        model = run.model(step)
        subject = Subject.of(model, run.task(), name)
        subject = subject if layers is None else subject.only(layers)
        measures, left_out = bound(subject, only, settings)
        for one in measures:
            one.controls = [null for null in one.controls if null in nulls]
            one.fit(None, model, subject, seed)
        if isinstance(model, OwnModel) and model.build is None:  # nothing makes an uninformed one
            for one in measures:
                one.controls = [null for null in one.controls if null != UNTRAINED]
        names = needed_names(subject, measures)
        # Heads are chosen on sequences that nothing is measured on.
        data = data_to_choose_heads_on(subject, names, seed)
        selection = None if data is None else Selection(data, subject.task.truth(data.tokens))
        own, seeds = Model.of(subject, selection, head), (seed, run.config.seed)
        if data is not None and len(data) > (few := enough_for_one_of_many(subject.task)):
            selection = Selection(data[:few], subject.task.truth(data[:few].tokens))
        fresh, uninformed = fresh_models(model, subject, measures, selection, seeds), {}
        if causal and any(one.name in MECHANISMS and one.n_draws for one in measures):
            mixed = shuffled_models(model, subject, selection, TESTED_DRAWS, seeds)
            uninformed = {UNTRAINED: fresh[:TESTED_DRAWS], SHUFFLED: mixed}
        needed = sets_of_heads(measures, own, data, seed) if causal else {}
        removed = heads_to_remove(own, data) if causal else ()
        return Plan(measures, left_out, names, own, fresh, uninformed, needed, removed, seed, causal)

    @property
    def size(self) -> int:
        """How many sequences are measured at a time; models with fresh weights see the first of these batches alone."""
        if self.fresh:
            return BATCH
        run = self.looked_at
        return sequences_at_a_time(self.own.subject, run.config if isinstance(run, Decoder) else run.cfg, self.names)

    @property
    def looked_at(self) -> AnyHooked | Decoder:
        """What is looked at: the hooked copy; without TransformerLens the decoder, if it shows all that is asked.

        The two differ by rounding, so on one machine it is always the same one.
        """
        model = self.own.subject.model
        if self.causal or self.fresh or not isinstance(model, Decoder) or can_hook():
            return self.own.hooked
        return model if {*self.names} <= {*seen_without_hooks(model), DECODED} else self.own.hooked

    def measure(self, batch: Batch, condition: dict[str, Any]) -> None:
        """Take every measure of a batch, and of its controls."""
        seen = capture(self.looked_at, self.own.subject, batch, self.names)
        measures = [one for one in self.measures if not (one.of_weights and one.batches)]
        for one in measures:
            one.batches.append(one.measure(seen))
        for name, control in CONTROLS.items():  # one at a time: a changed capture may be as large as the capture
            controlled = [one for one in measures if name in one.controls]
            if control.of_capture is not None and controlled:
                changed = control.of_capture(seen, self.control_draws)
                for one in controlled if len(changed.batch) else ():
                    one.keep(name, one.measure(changed), condition)
                del changed

    def measure_other_models(self, few: Batch, condition: dict[str, Any]) -> None:
        """Measure the models with fresh weights, and make the uninformed models' causal tests, on a few sequences."""
        measure_fresh(self.fresh, self.measures, few, self.names, condition)
        if self.causal:
            make_tests_of_nulls(self.measures, self.uninformed, few, self.seed)

    def test(self, batch: Batch) -> None:
        """Make the causal tests on a batch, if they are wanted."""
        if self.causal:
            make_causal_tests(self.measures, self.own, self.needed, batch, self.seed)
        if self.removed:
            self.without.append(fallen_without(self.own.hooked, self.own.subject, batch, self.removed))

    def fallen(self) -> Measurement | None:
        """The right answers that fall without each head that was removed; None where none was."""
        return Measurement.join(self.without).mean("example") if self.without else None

    def not_made(self) -> dict[str, str]:
        """What does not apply -> why, causal tests whose edit would not reach the output among it."""
        untested = {f"{one.name}, its causal test": one.untested for one in self.measures if one.untested}
        return self.left_out | untested

    def results(self, sample: Sample) -> dict[str, Result]:
        """The result of every measure."""
        return {
            one.name: result_of(one, self.own.head, self.needed.get(one.name, ()), sample.counts)
            for one in self.measures
        }

    def example(self) -> Capture:
        """A capture of a single sequence."""
        single = self.own.subject.task.sample(1, generator(self.seed, "example"), split="test")
        return capture(self.looked_at, self.own.subject, single, {*self.names, *from_embedding(self.own.subject)})


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


def data_to_choose_heads_on(subject: Subject, names: Sequence[str], seed: int) -> Batch | None:
    """Sequences on which the head in focus is chosen; None where there is no graph, or no attention is looked at.

    They are from the training side: of a task with few questions, a second draw from the test side has the same ones.
    """
    if not {*names} & {*attention_graph.needs(subject)} or attention_graph.why_not(subject) is not None:
        return None
    task = subject.task
    n = min(BATCH, enough(task))
    return once_each(task, task.sample(n, generator(seed, "selection"), split="train"))


def enough(task: Task) -> int:
    """How many sequences say as much as is asked of them: of long ones, which have many positions, fewer."""
    return max(4, NUMBERS // task.n_ctx**2)


def enough_for_one_of_many(task: Task) -> int:
    """The same of one of many models: fewer still, as a triangular solve takes the cube of the length."""
    return max(2, SOLVING // task.n_ctx**3)


def sequences_for_fresh_models(batches: Sequence[tuple[dict[str, Any], int, Batch]], task: Task) -> int:
    """How many sequences of each condition models with fresh weights are run on: fewer of many conditions or long."""
    least, most, in_all = FRESH
    n_conditions = len({str(condition) for condition, _, _ in batches})
    return min(most, enough_for_one_of_many(task), max(least, in_all // max(1, n_conditions)))


def sequences_at_a_time(subject: Subject, shape: Any, names: Sequence[str]) -> int:
    """How many sequences fit in `MEMORY` bytes together with what is measured of them: 2 to `BATCH`.

    Not one alone: a control takes the tokens of the other sequences of a batch.

    Args:
        subject: the model's facts.
        shape: the config of what is run, with `n_heads`.
        names: the hook points that are captured, each in float32; the output, and what is decoded beside it, takes
            `DECODED_BYTES`.
    """
    n_pos, (d_vocab, d_model) = subject.task.n_ctx, subject.decoder.shape
    patterns = sum(name.endswith("hook_pattern") for name in names)
    numbers = patterns * shape.n_heads * n_pos + (len(names) - patterns) * d_model
    return max(2, min(BATCH, MEMORY // (n_pos * (4 * numbers + DECODED_BYTES * d_vocab))))


def hook_names(subject: Subject) -> list[str]:
    """Every hook point that an inspection of this model needs, and those of an example's projections."""
    return sorted({*from_embedding(subject), *needed_names(subject, bound(subject, (), {})[0])})


def needed_names(subject: Subject, measures: Sequence[Measure]) -> list[str]:
    """The hook points that the measures need."""
    return sorted({name for one in measures for name in one.needs(subject)})


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
