"""What an inspection measures of a run, and of its baselines: instruments, mechanisms and their causal tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np

from workbench.capture import DECODED, Capture, Subject, capture, seen_without_hooks
from workbench.inspection.averages import averaged_result
from workbench.inspection.baseline_models import (
    BATCH,
    Model,
    Selection,
    data_to_choose_heads_on,
    enough_for_one_of_many,
    uninformed_models,
)
from workbench.inspection.measures import EVERY_HEAD, IN_FOCUS, NEEDED_HEADS, Measure, Settings, bound, hops_measured
from workbench.inspection.result import Result, Sample
from workbench.instruments.attention import attention_graph
from workbench.instruments.residual.projection import from_embedding
from workbench.interventions import Head, can_remove_heads, fallen_without
from workbench.measurement import Measurement
from workbench.measurement.controls import CONTROLS, SHUFFLED, UNTRAINED
from workbench.mechanisms import MECHANISMS
from workbench.mechanisms.heads import lost, smallest_set
from workbench.models import AnyHooked, Decoder, OwnModel
from workbench.models.facts import EditReachesNothingError
from workbench.runs import Run
from workbench.tasks import Batch
from workbench.util.seeds import generator

MEMORY = 2**28  # bytes that a batch may take; controls and what is measured of it take as much again, or twice
DECODED_BYTES = 16  # for each position and token of the vocabulary: the output, and copies of it, in float32
TESTED_DRAWS = 8  # models with fresh weights that are edited too, and as many with the run's own weights shuffled
SEARCHED = 32  # sequences on which a set of heads is looked for


class Plan:
    """The measures to take of a run, and the models to take them of; the arguments are those of `inspect_run`.

    Attributes:
        measures: instruments and mechanisms, each with its measurements so far.
        left_out: instrument or mechanism that does not apply -> the reason.
        names: the hook points that they need.
        own: the run's model, with the head in focus.
        fresh: models with fresh weights.
        uninformed: kind -> uninformed models for causal tests: some of the fresh ones, and some with shuffled weights.
        needed: claim about heads -> the smallest set of heads whose edit loses the answers.
        removed: the heads that are removed, one at a time, to see how many right answers change.
        without: the right answers that fall without these, one for each batch.
    """

    def __init__(
        self,
        run: Run,
        name: str,
        step: int | None,
        head: Head | None,
        seed: int,
        only: Sequence[str],
        settings: Settings,
        nulls: Sequence[str],
        causal: bool,
        layers: Sequence[int] | None,
    ) -> None:
        self.seed, self.settings, self.causal = seed, settings, causal
        self.control_draws = generator(seed, "control")
        self.without: list[Measurement] = []
        model = run.model(step)
        subject = Subject.of(model, run.task(), name)
        subject = subject if layers is None else subject.only(layers)
        self.measures, self.left_out = bound(subject, only, settings)
        alone = isinstance(model, OwnModel) and model.build is None  # nothing makes an uninformed one
        for measure in self.measures:
            measure.controls = [
                null for null in measure.controls if null in nulls and not (alone and null == UNTRAINED)
            ]
            measure.fit(None, model, subject, seed)
        self.names = sorted({name for measure in self.measures for name in measure.needs(subject)})
        # Heads are chosen on sequences that nothing is measured on.
        data = data_to_choose_heads_on(subject, self.names, seed)
        selection = None if data is None else (data, subject.task.truth(data.tokens))
        self.own = Model.of(subject, selection, head)
        if data is not None and len(data) > (few := enough_for_one_of_many(subject.task)):
            selection = (data[:few], subject.task.truth(data[:few].tokens))
        self._draw_uninformed(run, selection)
        self.needed: dict[str, tuple[Head, ...]] = {}
        if causal and data is not None:
            self.needed = sets_of_heads(self.measures, self.own, data, seed)
        self.removed = self._heads_to_remove(data) if causal and data is not None else ()

    def _draw_uninformed(self, run: Run, selection: Selection | None) -> None:
        """Make models with fresh weights, fit to them what is measured of them, and some with shuffled weights."""
        subject, seeds = self.own.subject, (self.seed, run.config.seed)
        assert subject.model is not None
        n_fresh = max((measure.n_draws for measure in self.measures), default=0)
        self.fresh = uninformed_models(UNTRAINED, subject.model, subject, selection, n_fresh, seeds)
        for draw, fresh in enumerate(self.fresh):
            for measure in self.measures:
                if draw < measure.n_draws:
                    assert fresh.subject.model is not None
                    measure.fit(draw, fresh.subject.model, fresh.subject, self.seed)
        self.uninformed: dict[str, list[Model]] = {}
        if self.causal and any(measure.name in MECHANISMS and measure.n_draws for measure in self.measures):
            mixed = uninformed_models(SHUFFLED, subject.model, subject, selection, TESTED_DRAWS, seeds)
            self.uninformed = {UNTRAINED: self.fresh[:TESTED_DRAWS], SHUFFLED: mixed}

    def _heads_to_remove(self, data: Batch) -> tuple[Head, ...]:
        """The head in focus, and the one without which most right answers change on other data, if it is another."""
        own = self.own
        if own.head is None or not can_remove_heads(own.hooked):
            return ()
        fallen = fallen_without(own.hooked, own.subject, data[:SEARCHED], own.every_head).mean("example").values
        costliest = [] if np.isnan(fallen).all() else [own.every_head[int(np.nanargmax(fallen))]]
        return tuple(dict.fromkeys([own.head, *costliest]))

    @property
    def size(self) -> int:
        """How many sequences are measured at a time; models with fresh weights see the first of these batches alone."""
        if self.fresh:
            return BATCH
        # As many as fit in `MEMORY` bytes with what is captured of them in float32, and, for each class, the output and
        # what is decoded beside it. Not one alone: a control takes the tokens of the other sequences of a batch.
        subject, run = self.own.subject, self.looked_at
        n_heads = (run.config if isinstance(run, Decoder) else run.cfg).n_heads
        n_pos, (d_vocab, d_model) = subject.task.n_ctx, subject.decoder.shape
        patterns = sum(name.endswith("hook_pattern") for name in self.names)
        numbers = patterns * n_heads * n_pos + (len(self.names) - patterns) * d_model
        return max(2, min(BATCH, MEMORY // (n_pos * (4 * numbers + DECODED_BYTES * d_vocab))))

    @cached_property
    def looked_at(self) -> AnyHooked | Decoder:
        """What is looked at: the hooked copy; without TransformerLens the decoder, if it shows all that is asked.

        A machine that only trains may lack it. The two differ by rounding, so on one machine it is always the same one.
        """
        model = self.own.subject.model
        if self.causal or self.fresh or not isinstance(model, Decoder):
            return self.own.hooked
        try:
            import transformer_lens  # noqa: F401
        except ImportError:
            if {*self.names} <= {*seen_without_hooks(model), DECODED}:
                return model
        return self.own.hooked

    def measure(self, batch: Batch, condition: dict[str, Any]) -> None:
        """Take every measure of a batch, and of its controls."""
        seen = capture(self.looked_at, self.own.subject, batch, self.names)
        measures = [measure for measure in self.measures if not (measure.of_weights and measure.batches)]
        for measure in measures:
            measure.batches.append(measure.measure(seen))
        for name, control in CONTROLS.items():  # one at a time: a changed capture may be as large as the capture
            controlled = [measure for measure in measures if name in measure.controls]
            if control.of_capture is not None and controlled:
                changed = control.of_capture(seen, self.control_draws)
                for measure in controlled if len(changed.batch) else ():
                    measure.keep(name, measure.measure(changed), condition)
                del changed

    def measure_other_models(self, few: Batch, condition: dict[str, Any]) -> None:
        """Measure the models with fresh weights, and make the uninformed models' causal tests, on a few sequences."""
        truth = self.own.subject.task.truth(few.tokens) if self.fresh else None  # once for all models
        for draw, model in enumerate(self.fresh):
            seen = capture(model.hooked, model.subject, few, self.names, truth)
            for measure in self.measures:
                measure.measure_fresh(draw, model, seen, condition)
        for measure in self.measures if self.causal else ():
            if measure.name in MECHANISMS and measure.n_draws:
                for kind, models in self.uninformed.items():
                    for draw, model in enumerate(models):
                        measure.test((kind, draw), model, few, self.seed, [model.head] if model.head else None)

    def test(self, batch: Batch) -> None:
        """Make the causal tests on a batch, if they are wanted: in the head in focus, the smallest set, every head."""
        own, seed = self.own, self.seed
        for measure in self.measures if self.causal else ():
            if measure.name not in MECHANISMS:
                continue
            measure.test(IN_FOCUS, own, batch, seed, [own.head] if own.head else None)
            if measure.of_heads:
                measure.test(EVERY_HEAD, own, batch, seed, own.every_head)
                if self.needed.get(measure.name) == (own.head,):  # the same test
                    measure.causal_batches[NEEDED_HEADS] = measure.causal_batches[IN_FOCUS]
                elif self.needed.get(measure.name):
                    measure.test(NEEDED_HEADS, own, batch, seed, self.needed[measure.name])
        if self.removed:
            self.without.append(fallen_without(self.own.hooked, self.own.subject, batch, self.removed))

    def fallen(self) -> Measurement | None:
        """The right answers that fall without each head that was removed; None where none was."""
        return Measurement.join(self.without).mean("example") if self.without else None

    def not_made(self) -> dict[str, str]:
        """What does not apply -> why, causal tests whose edit would not reach the output among it."""
        untested = {f"{each.name}, its causal test": each.untested for each in self.measures if each.untested}
        return self.left_out | untested

    def results(self, sample: Sample) -> dict[str, Result]:
        """The result of every measure. Raises ValueError if settings were given with which one has no number at all."""
        results = {
            measure.name: averaged_result(measure, self.own.head, self.needed.get(measure.name, ()), sample.counts)
            for measure in self.measures
        }
        for name, given in self.settings.items():
            if given and name in results and np.isnan(results[name].mean.values).all():
                values = ", ".join(f"{key}={value!r}" for key, value in given.items())
                raise ValueError(f"{name} with {values} measures nothing on these sequences; give other settings")
        return results

    def example(self) -> Capture:
        """A capture of a single sequence."""
        single = self.own.subject.task.sample(1, generator(self.seed, "example"), split="test")
        return capture(self.looked_at, self.own.subject, single, {*self.names, *from_embedding(self.own.subject)})


def sets_of_heads(measures: Sequence[Measure], own: Model, data: Batch, seed: int) -> dict[str, tuple[Head, ...]]:
    """Claim about heads -> the smallest set of heads whose edit loses the answers, searched on other data.

    Args:
        measures: the measures, of which claims about heads are searched.
        own: the model that is inspected.
        data: sequences on which nothing else is measured.
        seed: of the causal tests.
    """
    batch, sets = data[:SEARCHED], {}
    # Heads are left out one by one, those with the least mass on gold paths first.
    seen = capture(own.hooked, own.subject, batch, attention_graph.needs(own.subject))
    mass = attention_graph.measure(seen, ("resolvent",)).select(matrix="resolvent").mean("example").values
    every = [(layer, head) for layer in range(mass.shape[0]) for head in range(mass.shape[1])]
    weakest_first = sorted(every, key=lambda head: float(mass[head]))
    for measure in measures:
        if not measure.of_heads:
            continue
        hops: dict[str, Any] = {}
        if "hops" in signature(measure.thing.causal).parameters:  # type: ignore[union-attr]
            n_hops = hops_measured(own.subject)
            hops = {"hops": sorted({1, (n_hops + 1) // 2, n_hops})}  # the first, the middle and the last one measured

        def effect(heads: Sequence[Head], measure: Measure = measure, hops: dict[str, Any] = hops) -> np.ndarray:
            return lost(measure.tested(own, batch, seed, heads, **hops))

        try:
            sets[measure.name] = smallest_set(effect, weakest_first)
        except EditReachesNothingError as error:
            measure.untested = str(error)
    return sets
