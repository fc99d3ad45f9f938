"""What a probe is fitted to, condition after condition: the model's vectors, and what they are held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Subject
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement.controls import untrained as nulls
from workbench.probes import decoding, features
from workbench.probes.decoding import REGRESSION, Split
from workbench.probes.labels import has_label, is_labelled, labels
from workbench.probes.positions import Rows, Rule, rows
from workbench.runs import Run
from workbench.tasks import Batch, Task, distinct
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

TRAINED, UNTRAINED, TOKEN, PLACED = "trained", "untrained model", "current token", "token and position"
SHUFFLED, FREQUENT, CONTROL = "shuffled labels", "most frequent label", "control task"
BASELINES = (TOKEN, PLACED, SHUFFLED, FREQUENT)
"""What a label must be decoded better than: all that the token at the position alone tells; what token and position
tell together; labels shuffled among the rows; always saying the commonest."""
UNTRAINED_DRAWS = 3
MOST_COLUMNS = 512  # for the tokens, or the positions, that a baseline sees
CONDITIONS = (TRAINED, UNTRAINED, *BASELINES, CONTROL)
"""The probe itself; the same on models with fresh weights, of which the best counts, which says what training added;
the baselines; and the control task of Hewitt and Liang (2019), a class drawn at random for each token. How far the
probe is above that is its selectivity: a probe that can learn anything has none. Where the token itself can be read, as
in most of the residual of models with few tokens, every probe learns that task, and the baseline `current token` says
more."""

Read = Callable[[Rows], Float[Tensor, "point place n d"]]


@dataclass(frozen=True)
class Source:
    """Whose residual is probed, on which sequences.

    Attributes:
        task, batch: the sequences.
        points: hook names.
        read: the vectors of the model.
        untrained: those of models of its shape with fresh weights, as many as there are.
        name: of the model.
    """

    task: Task
    batch: Batch
    points: Sequence[str]
    read: Read
    untrained: Sequence[Read]
    name: str

    @classmethod
    def of_run(cls, run: Run, points: str | Sequence[str] | None, *, n: int, seed: int, step: int | None) -> Source:
        """A run's residual on sequences from the test side of its task's split.

        Raises:
            ValueError: if there is no such checkpoint, or the task has not so many sequences.
        """
        task, model = run.task(), run.model(step)
        batch = task.sample(n, generator(seed, "probe"), split="test")
        names = [points] if isinstance(points, str) else points
        names = from_embedding(Subject.of(model, task, run.name)) if names is None else list(names)
        fresh = [nulls.untrained(model, generator(seed, "untrained", draw)) for draw in range(UNTRAINED_DRAWS)]
        read, *untrained = (partial(features.from_model, each, batch, names) for each in (model, *fresh))
        return cls(task, batch, names, read, untrained, run.name_at(step))

    @property
    def counts(self) -> dict[str, int]:
        """How many sequences were drawn, and how many of them are distinct."""
        return {"drawn": len(self.batch), "distinct": len(distinct(self.task, self.batch.tokens).unique())}


def asked(
    task: Task, batch: Batch, names: Sequence[str], positions: Rule
) -> tuple[Rows, list[Int[Tensor, "place n *class"]]]:
    """The rows that a rule picks out for some labels, and what each label is there.

    Raises:
        ValueError: if there is no such label or rule, or nothing is labelled there.
    """
    known = labels(task, batch.tokens)
    values = [lookup(known, name, f"label of {task.name}") for name in names]
    where = rows(task, batch, positions, torch.stack([is_labelled(value) for value in values]).any(0))
    return where, [where.label(value) for value in values]


@dataclass(frozen=True)
class Asked:
    """Labels to decode at some rows of a source, under one condition after the other.

    Attributes:
        source: whose vectors.
        where: the rows.
        y: what each label is there.
        sequence: `[n]`, which sequence each row is of; two that ask the same question are one.
        split: which of them are fitted on.
        seed: of all chance.
    """

    source: Source
    where: Rows
    y: list[Int[Tensor, "place n *class"]]
    sequence: Int[Tensor, " n"]
    split: Split
    seed: int

    @classmethod
    def of(cls, source: Source, names: Sequence[str], positions: Rule, seed: int) -> Asked:
        """Raises ValueError as `asked` and `Split.by_example` do."""
        where, y = asked(source.task, source.batch, names, positions)
        sequence = distinct(source.task, source.batch.tokens)[where.example]
        return cls(source, where, y, sequence, Split.by_example(sequence, generator(seed, "split")), seed)

    @cached_property
    def x(self) -> Float[Tensor, "point place n d"]:
        """The model's vectors."""
        return self.source.read(self.where)

    def data(self, condition: str) -> tuple[Float[Tensor, "point place n d"], list[Int[Tensor, "place n *class"]]]:
        """What a probe is fitted to under a condition that fits one; of several untrained models, the first.

        Raises:
            ValueError: if there is no untrained model.
        """
        if condition == UNTRAINED:
            return self._fresh()[0](self.where), self.y
        chance = generator(self.seed, condition)
        if condition == SHUFFLED:
            return self.x, [_shuffled(y, chance) for y in self.y]
        if condition == CONTROL:
            return self.x, [_by_chance(self.tokens, y, chance) for y in self.y]
        assert condition == TRAINED, condition
        return self.x, self.y

    def _fresh(self) -> Sequence[Read]:
        if not self.source.untrained:
            raise ValueError("there is no untrained model to compare with; give its capture, or leave it out")
        return self.source.untrained

    @property
    def tokens(self) -> Int[Tensor, "place n"]:
        """The token at each row."""
        return self.where.take(self.source.batch.tokens)

    def outcome(
        self, condition: str, kind: str, settings: dict[str, Any]
    ) -> Float[Tensor, "label point place sequence"]:
        """What is decoded of each sequence (see `decoding.decode`)."""
        if condition == UNTRAINED:
            draws = [self._decoded(read(self.where), self.y, kind, settings) for read in self._fresh()]
            return _best(torch.stack(draws))
        if condition == FREQUENT and kind == REGRESSION:  # the mean, which explains nothing
            return torch.zeros_like(self.outcome(TOKEN, kind, settings))
        if condition == FREQUENT:
            return self._everywhere(decoding.majority(self.y, self.split))
        if condition == TOKEN and kind != REGRESSION:
            return self._everywhere(decoding.by_token(self.tokens, self.y, self.split))
        if condition == TOKEN:
            one_hot = torch.nn.functional.one_hot(self.tokens).float()[None]
            return self._everywhere(self._decoded(one_hot, self.y, kind, settings)[:, 0])
        if condition == PLACED:
            return self._everywhere(self._placed(kind, settings))
        return self._decoded(*self.data(condition), kind, settings)

    def _placed(self, kind: str, settings: dict[str, Any]) -> Float[Tensor, "label place sequence"]:
        """What is decoded by those who see token and position, and nothing else: the best of two ways to use them.

        A probe of the same kind on one-hots of both, and as numbers with their product and squares, so that what grows
        with them needs no example of each; and, for classes, the commonest at each pair of them. A label that is the
        position itself has no such baseline.
        """
        tokens, position = self.tokens, self.where.position.clamp(min=0)
        t, p = (each[..., None].float() / max(1, int(each.amax())) for each in (tokens, position))
        both = torch.cat([_columns(tokens), _columns(position), t, p, t * p, t * t, p * p], -1)
        ways = [self._decoded(both[None], self.y, kind, settings)[:, 0]]
        if kind != REGRESSION:
            pairs = (tokens * (int(position.amax()) + 1) + position).unique(return_inverse=True)[1]
            ways.append(decoding.by_token(pairs, self.y, self.split))
        itself = torch.tensor([y.ndim == 2 and bool(((y == position) | (y < 0)).all()) for y in self.y])
        return torch.where(itself[:, None, None], torch.nan, _best(torch.stack(ways)))

    def _decoded(self, x: Tensor, y: list[Tensor], kind: str, settings: dict[str, Any]) -> Tensor:
        return decoding.decode(x, y, self.split, kind=kind, generator=generator(self.seed, "probe"), **settings)

    def _everywhere(self, flat: Float[Tensor, "label place sequence"]) -> Float[Tensor, "label point place sequence"]:
        return flat[:, None].expand(-1, len(self.source.points), -1, -1)


def _best(ways: Float[Tensor, "way *cell sequence"]) -> Float[Tensor, "*cell sequence"]:
    """Of each cell the way that decodes most."""
    best = ways.nanmean(-1).nan_to_num(-torch.inf).argmax(0)
    return ways.gather(0, best[None, ..., None].expand(1, *ways.shape[1:]))[0]


def _columns(values: Int[Tensor, "place n"]) -> Float[Tensor, "place n column"]:
    """One-hots of the commonest values; all rarer ones share a column."""
    _, at, count = values.unique(return_inverse=True, return_counts=True)
    rank = torch.empty_like(count).scatter_(0, count.argsort(descending=True, stable=True), torch.arange(len(count)))
    return torch.nn.functional.one_hot(rank[at].clamp(max=MOST_COLUMNS - 1)).float()


def _shuffled(y: Int[Tensor, "place n *class"], chance: torch.Generator) -> Tensor:
    """The labels of each place in another order, among the rows that have one."""
    mixed = y.clone()
    for place, row in enumerate(y):
        there = has_label(row).nonzero()[:, 0]
        mixed[place, there] = row[there[torch.randperm(len(there), generator=chance)]]
    return mixed


def _by_chance(tokens: Int[Tensor, "place n"], y: Int[Tensor, "place n *class"], chance: torch.Generator) -> Tensor:
    """A label for each token, drawn once and for all from those that there are (Hewitt and Liang 2019, §2.1)."""
    there = is_labelled(y)
    kinds = y[there]
    if not len(kinds):  # another label is there at these positions, and this one is not
        return y
    drawn = kinds[torch.randint(len(kinds), (int(tokens.amax()) + 1,), generator=chance)]
    given = drawn[tokens]
    return torch.where(there if y.ndim == 2 else there[..., None], given, -1)
