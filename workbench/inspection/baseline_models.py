"""The model that is inspected, and its baselines: models with fresh or shuffled weights, each with its best head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from workbench.capture import Subject, capture
from workbench.instruments.attention import attention_graph
from workbench.interventions import Head
from workbench.measurement.controls import SHUFFLED, UNTRAINED
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch, Task, Truth, once_each
from workbench.util.seeds import generator

BATCH = 64  # sequences at a time
NUMBERS = 2**20  # of one head's patterns of the sequences on which heads are chosen
SOLVING = 2**27  # steps of solving one head's patterns, as ChaCAL does, of the sequences that fresh models are run on


Selection = tuple[Batch, Truth]
"""Sequences on which the head in focus of every model is chosen, and the task's truth of them, which is computed once
for all models: it can cost more than a model."""


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

    @property
    def every_head(self) -> list[Head]:
        """Every head, as (layer, head)."""
        return [(layer, head) for layer in range(self.subject.n_layers) for head in range(self.hooked.cfg.n_heads)]

    @staticmethod
    def of(
        subject: Subject, selection: Selection | None, head: Head | None = None, given: AnyHooked | None = None
    ) -> Model:
        """A model; its head is the one given, or the one with the most mass on gold paths of `selection`."""
        model = Model(subject, head, given)
        if head is None and selection is not None:
            batch, truth = selection
            seen = capture(model.hooked, subject, batch, attention_graph.needs(subject), truth)
            model.head = attention_graph.best_head(attention_graph.measure(seen, ("resolvent",)))
        return model


def uninformed_models(
    kind: str, model: AnyModel, subject: Subject, selection: Selection | None, n: int, seeds: tuple[int, int]
) -> list[Model]:
    """Models that differ from one in their weights alone, hooked, each with its best head.

    Args:
        kind: `untrained`: with fresh weights; `shuffled`: with the numbers of each weight matrix in random order, as
            large, and without structure.
        model: the architecture, and the weights to shuffle.
        subject: its facts.
        selection: sequences on which heads are chosen.
        n: how many.
        seeds: of the inspection and of the run.
    """
    if not n:
        return []
    from workbench.models.hooked import hook_alike

    models = [_made(kind, model, draw, seeds) for draw in range(n)]
    subjects = [Subject.of(made, subject.task, f"{subject.name}, {kind}") for made in models]
    return [Model.of(made, selection, given=hooked) for hooked, made in zip(hook_alike(models), subjects, strict=True)]


def uninformed_model(kind: str, model: AnyModel, subject: Subject, draw: int, seeds: tuple[int, int]) -> Model:
    """One of `uninformed_models` by its number, without a head in focus: for large models, one at a time."""
    return Model(Subject.of(_made(kind, model, draw, seeds), subject.task, f"{subject.name}, {kind}"), None)


def _made(kind: str, model: AnyModel, draw: int, seeds: tuple[int, int]) -> AnyModel:
    make = {UNTRAINED: untrained, SHUFFLED: shuffled}[kind]
    return make(model, generator(seeds[0], kind, seeds[1], draw))


def data_to_choose_heads_on(subject: Subject, names: Sequence[str], seed: int) -> Batch | None:
    """Sequences on which the head in focus is chosen; None where there is no graph, or no attention is looked at.

    They are from the training side: of a task with few questions, a second draw from the test side has the same ones.
    """
    if not {*names} & {*attention_graph.needs(subject)} or attention_graph.why_not(subject) is not None:
        return None
    task = subject.task
    n = min(BATCH, max(4, NUMBERS // task.n_ctx**2))  # of long ones, which have many positions, fewer
    return once_each(task, task.sample(n, generator(seed, "selection"), split="train"))


def enough_for_one_of_many(task: Task) -> int:
    """How many sequences say as much as is asked of one of many models: a triangular solve takes the length cubed."""
    return max(2, SOLVING // task.n_ctx**3)
