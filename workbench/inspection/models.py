"""The model that is inspected and the models with fresh weights beside it, each with its own best head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.capture import Subject, capture
from workbench.inspection.measures import Measure
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.mechanisms import MECHANISMS
from workbench.models import Decoder
from workbench.tasks import Batch
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.hooked import HookedDecoder


@dataclass(frozen=True)
class Model:
    """A hooked model with its facts, and the head that was chosen of it on other data than it is measured on."""

    hooked: HookedDecoder
    subject: Subject
    head: Head | None

    @staticmethod
    def of(model: Decoder, subject: Subject, other: Batch | None, head: Head | None = None) -> Model:
        """The head is that with the most mass on the gold paths of the other data, unless one is given."""
        from workbench.models.hooked import hook

        hooked = hook(model)
        if head is None and other is not None:
            seen = capture(hooked, subject, other, attention_graph.needs(subject))
            head = attention_graph.best_head(attention_graph.measure(seen))
        return Model(hooked, subject, head)


def fresh_models(
    model: Decoder, subject: Subject, measures: Sequence[Measure], other: Batch | None, seeds: tuple[int, int]
) -> list[Model]:
    """As many models with fresh weights as any measure wants, each with its own best head."""
    found = []
    for draw in range(max((one.n_draws for one in measures), default=0)):
        fresh = untrained(model, generator(seeds[0], UNTRAINED, seeds[1], draw))
        facts = Subject.of(fresh, subject.task, f"{subject.name}, {UNTRAINED}")
        found.append(Model.of(fresh, facts, other))
        for one in measures:
            if draw < one.n_draws:
                one.fit(draw, fresh, facts, seeds[0])
    return found


def shuffled_models(
    model: Decoder, subject: Subject, other: Batch | None, n: int, seeds: tuple[int, int]
) -> list[Model]:
    """Copies of a model with the numbers of each weight matrix in random order: as large, and without structure."""
    found = []
    for draw in range(n):
        mixed = shuffled(model, generator(seeds[0], "shuffled", seeds[1], draw))
        found.append(Model.of(mixed, Subject.of(mixed, subject.task, f"{subject.name}, shuffled"), other))
    return found


def measure_fresh(
    fresh: Sequence[Model],
    measures: Sequence[Measure],
    batch: Batch,
    names: Sequence[str],
    condition: dict[str, Any],
) -> None:
    """Every measure on the models with fresh weights, one after the other; of a claim about heads the best one's."""
    for draw, model in enumerate(fresh):
        seen = capture(model.hooked, model.subject, batch, names)
        for one in measures:
            if draw < one.n_draws:
                found = one.measure(seen, of=draw)
                if one.name in MECHANISMS and "head" in found.dims:
                    assert model.head is not None, "a claim about heads needs a graph"
                    found = replace(
                        found.select(layer=model.head[0], head=model.head[1]),
                        settings={**found.settings, "head": "the best of each model"},
                    )
                one.draws.setdefault(draw, []).append(found)
                if not draw and "example" in found.dims:
                    conditions = one.null_conditions.setdefault(UNTRAINED, [])
                    conditions += [condition] * found.values.shape[-1]
