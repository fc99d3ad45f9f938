"""The model that is inspected, and its baselines: models with fresh or shuffled weights, each with its best head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench.capture import Subject, capture
from workbench.inspection.measures import Measure
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.models import AnyModel
from workbench.tasks import Batch, Truth
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


@dataclass(frozen=True)
class Selection:
    """The sequences on which the head in focus of every model is chosen, and the task's truth of them."""

    batch: Batch
    truth: Truth


@dataclass
class Model:
    """A model, and the head in focus, which is chosen on other data than it is measured on.

    Attributes:
        subject: its facts, with the bare model.
        head: the head in focus, or None.
        given: its hooked copy, if there is one already.
    """

    subject: Subject
    head: Head | None
    given: AnyHooked | None = None

    @cached_property
    def hooked(self) -> AnyHooked:
        """The hooked copy: made when it is first asked for, as many measures need none."""
        from workbench.models.hooked import hook

        assert self.subject.model is not None
        return hook(self.subject.model) if self.given is None else self.given

    @staticmethod
    def of(
        subject: Subject, selection: Selection | None, head: Head | None = None, given: AnyHooked | None = None
    ) -> Model:
        """A model; its head is the one given, or the one with the most mass on gold paths of `selection`."""
        model = Model(subject, head, given)
        if head is None and selection is not None:
            seen = capture(model.hooked, subject, selection.batch, attention_graph.needs(subject), selection.truth)
            model.head = attention_graph.best_head(attention_graph.measure(seen, ("resolvent",)))
        return model


def fresh_models(
    model: AnyModel, subject: Subject, measures: Sequence[Measure], selection: Selection | None, seeds: tuple[int, int]
) -> list[Model]:
    """As many models with fresh weights as any measure needs, each with its best head.

    Args:
        model: the architecture.
        subject: its facts.
        measures: those that need fitting to a model are fitted to each.
        selection: sequences on which heads are chosen.
        seeds: of the inspection and of the run.
    """
    if not (n := max((one.n_draws for one in measures), default=0)):
        return []
    fresh = [untrained(model, generator(seeds[0], UNTRAINED, seeds[1], draw)) for draw in range(n)]
    models = _hooked(fresh, subject, UNTRAINED, selection)
    for draw, (bare, hooked) in enumerate(zip(fresh, models, strict=True)):
        for one in measures:
            if draw < one.n_draws:
                one.fit(draw, bare, hooked.subject, seeds[0])
    return models


def shuffled_models(
    model: AnyModel, subject: Subject, selection: Selection | None, n: int, seeds: tuple[int, int]
) -> list[Model]:
    """Copies of a model with the numbers of each weight matrix in random order: as large, and without structure."""
    mixed = [shuffled(model, generator(seeds[0], "shuffled", seeds[1], draw)) for draw in range(n)]
    return _hooked(mixed, subject, "shuffled", selection)


def _hooked(models: Sequence[AnyModel], subject: Subject, what: str, selection: Selection | None) -> list[Model]:
    """Models that differ from the subject's in their weights alone, hooked, each with its best head."""
    from workbench.models.hooked import hook_alike

    facts = [Subject.of(model, subject.task, f"{subject.name}, {what}") for model in models]
    return [Model.of(one, selection, given=hooked) for hooked, one in zip(hook_alike(models), facts, strict=True)]


def measure_fresh(
    fresh: Sequence[Model],
    measures: Sequence[Measure],
    batch: Batch,
    names: Sequence[str],
    condition: dict[str, Any],
) -> None:
    """Take every measure of the models with fresh weights; those read at one head, at each model's best head."""
    truth = fresh[0].subject.task.truth(batch.tokens) if fresh else None  # once for all: it can cost more than a model
    for draw, model in enumerate(fresh):
        seen = capture(model.hooked, model.subject, batch, names, truth)
        for one in measures:
            if draw >= one.n_draws or (one.of_weights and draw in one.fresh_batches):
                continue
            measured = one.measure(seen, of=draw)
            if one.read_at_head and "head" in measured.dims:
                measured = _of_best_head(measured, model)
            one.fresh_batches.setdefault(draw, []).append(measured)
            if not draw and "example" in measured.dims:
                conditions = one.control_conditions.setdefault(UNTRAINED, [])
                conditions += [condition] * measured.values.shape[-1]


def _of_best_head(measured: Measurement, model: Model) -> Measurement:
    """A measurement of every head at the model's best head."""
    assert model.head is not None, "a measure that is read at one head needs a graph"
    layer, head = model.head
    part = measured.select(layer=layer, head=head)
    return replace(part, settings={**part.settings, "head": "the best of each model"})
