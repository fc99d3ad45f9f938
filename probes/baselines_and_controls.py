"""Baselines and controls of a probe, such as the control task: what its accuracy is compared with."""

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
from workbench.judgement.decodable import (
    ADDED,
    BASELINES,
    CONTROL,
    FREQUENT,
    PAIRS,
    SHUFFLED,
    TOKEN,
    TRAINED,
    UNTRAINED,
)
from workbench.measurement.controls import untrained as nulls
from workbench.models import OwnModel
from workbench.probes import fitting, probe_inputs
from workbench.probes.fitting import REGRESSION, Split
from workbench.probes.positions import Rows, Rule, rows
from workbench.runs import Run
from workbench.tasks import Batch, Task, distinct
from workbench.tasks.labels import is_labelled, labels
from workbench.util.lookup import lookup
from workbench.util.progress import steps
from workbench.util.seeds import generator

UNTRAINED_DRAWS = 3
LEAST_ROWS = 256  # of a sample
MOST_COLUMNS = 512  # for the tokens, or the positions, that a baseline sees
CONDITIONS = (TRAINED, UNTRAINED, *BASELINES, CONTROL)
"""The probe itself; the same on re-initialised models, of which the best counts: the difference is what training
added; the baselines; and the control task of Hewitt and Liang (2019), where each token has a class drawn at random. The
probe's accuracy less that on the control task is its selectivity: a probe that can learn any label of the token has
none."""

Read = Callable[[Rows], Float[Tensor, "point place n d"]]


@dataclass(frozen=True)
class Source:
    """A model whose residual is probed, and the sequences it is run on.

    Attributes:
        task: the task of the sequences.
        batch: the sequences.
        points: hook names.
        read: gives the model's vectors at some rows.
        untrained: the same of re-initialised models of its shape; may be empty.
        name: the model's name.
        most: rows times classes, at one point, beyond which probes read a sample of the rows; None for all rows. Then
            points are also probed in turn, so that what is done can be kept.
    """

    task: Task
    batch: Batch
    points: Sequence[str]
    read: Read
    untrained: Sequence[Read]
    name: str
    most: int | None = None

    @classmethod
    def of_run(cls, run: Run, points: str | Sequence[str] | None, *, n: int, seed: int, step: int | None) -> Source:
        """The residual of a run's model on sequences from the test side of its task's split.

        Raises:
            ValueError: if there is no such checkpoint, or the task has not so many sequences.
        """
        task, model = run.task(), run.model(step)
        batch = task.sample(n, generator(seed, "probe"), split="test")
        names = [points] if isinstance(points, str) else points
        names = from_embedding(Subject.of(model, task, run.name)) if names is None else list(names)
        known = not (isinstance(model, OwnModel) and model.build is None)  # how it is re-initialised
        draws = range(UNTRAINED_DRAWS if known else 0)
        fresh = [nulls.untrained(model, generator(seed, "untrained", draw)) for draw in draws]
        read, *untrained = (partial(probe_inputs.from_model, each, batch, names) for each in (model, *fresh))
        return cls(task, batch, names, read, untrained, run.name_at(step))

    def possible(self, controls: Sequence[str]) -> list[str]:
        """The controls without re-initialised models, where nothing builds the model anew (one of Hugging Face)."""
        return [name for name in controls if name != UNTRAINED or self.untrained]

    @property
    def counts(self) -> dict[str, int]:
        """How many sequences were drawn, and how many of them are distinct."""
        return {"drawn": len(self.batch), "distinct": len(distinct(self.task, self.batch.tokens).unique())}


def rows_and_labels(
    task: Task, batch: Batch, names: Sequence[str], positions: Rule
) -> tuple[Rows, list[Int[Tensor, "place n *class"]]]:
    """The rows that a rule picks for some labels, and the value of each label there.

    Raises:
        ValueError: if there is no such label or rule, or nothing is labelled there.
    """
    known = labels(task, batch.tokens)
    values = [lookup(known, name, f"label of {task.name}") for name in names]
    where = rows(task, batch, positions, torch.stack([is_labelled(value) for value in values]).any(0))
    return where, [where.label(value) for value in values]


@dataclass(frozen=True)
class ProbeData:
    """The data of a probe: a model's vectors at some rows and their labels, under each baseline and control.

    Attributes:
        source: the model and the sequences.
        where: the rows.
        y: the value of each label at these rows, −1 where it has none.
        sequence: which sequence each row is of; two that ask the same question count as one.
        split: which sequences the probe is fitted on, and which it is tested on.
        seed: seed of everything drawn at random.
        n_rows: how many rows there were before a sample was drawn of them.
    """

    source: Source
    where: Rows
    y: list[Int[Tensor, "place n *class"]]
    sequence: Int[Tensor, " n"]
    split: Split
    seed: int
    n_rows: int = 0

    @classmethod
    def of(cls, source: Source, names: Sequence[str], positions: Rule, seed: int) -> ProbeData:
        """Choose the rows and split their sequences. Raises as `rows_and_labels` and `Split.by_example` do."""
        where, y = rows_and_labels(source.task, source.batch, names, positions)
        n_rows = len(where.example)
        if source.most is not None:
            # as many rows, drawn at random, as have with their classes no more than `most` numbers
            order, n = torch.randperm(n_rows, generator=generator(seed, "rows")), n_rows
            while n > LEAST_ROWS and n * sum(len(values[:, order[:n]].unique()) for values in y) > source.most:
                n = max(LEAST_ROWS, int(0.9 * n))
            taken = order[:n].sort().values
            where = Rows(where.example[taken], where.position[:, taken], where.names)
            y = [values[:, taken] for values in y]
        sequence = distinct(source.task, source.batch.tokens)[where.example]
        split = Split.by_example(sequence, generator(seed, "split"))
        return cls(source, where, y, sequence, split, seed, n_rows)

    @cached_property
    def x(self) -> Float[Tensor, "point place n d"]:
        """The model's vectors."""
        return self.source.read(self.where)

    def data(self, condition: str) -> tuple[Float[Tensor, "point place n d"], list[Int[Tensor, "place n *class"]]]:
        """The vectors and labels that a probe is fitted to under a condition.

        Of several re-initialised models, it is the first.

        Args:
            condition: one that fits a probe to a model's vectors: `TRAINED`, `UNTRAINED`, `SHUFFLED` or `CONTROL`.

        Raises:
            ValueError: if there is no re-initialised model.
        """
        if condition == UNTRAINED:
            return self._untrained()[0](self.where), self.y
        chance = generator(self.seed, condition)
        if condition == SHUFFLED:
            return self.x, [_shuffled(y, chance) for y in self.y]
        if condition == CONTROL:
            return self.x, [_control_task(self.tokens, y, chance) for y in self.y]
        assert condition == TRAINED, condition
        return self.x, self.y

    def _untrained(self) -> Sequence[Read]:
        if not self.source.untrained:
            raise ValueError("there is no re-initialised model to compare with; give its capture, or leave it out")
        return self.source.untrained

    @property
    def tokens(self) -> Int[Tensor, "place n"]:
        """The token at each row."""
        return self.where.take(self.source.batch.tokens)

    def outcome(
        self, condition: str, kind: str, settings: dict[str, Any]
    ) -> Float[Tensor, "label point place sequence"]:
        """The share decoded of each tested sequence under a condition (see `fitting.decode`)."""
        if condition == UNTRAINED:
            draws = [self._decoded(read(self.where), self.y, kind, settings) for read in self._untrained()]
            outcomes = torch.stack(draws)
            best = outcomes.nanmean(-1).nan_to_num(-torch.inf).argmax(0)  # of each label, point and place
            return outcomes.gather(0, best[None, ..., None].expand(1, *outcomes.shape[1:]))[0]
        baselines = {
            FREQUENT: self._most_frequent,
            TOKEN: self._from_token,
            ADDED: self._from_token_and_position,
            PAIRS: self._from_pairs,
        }
        if condition in baselines:  # which are the same at every point
            return baselines[condition](kind, settings)[:, None].expand(-1, len(self.source.points), -1, -1)
        return self._decoded(*self.data(condition), kind, settings)

    def in_turn(
        self, conditions: Sequence[str], kind: str, settings: dict[str, Any]
    ) -> dict[str, Float[Tensor, "label point place sequence"]]:
        """`outcome` under each condition, point by point; after an interrupt, of the points that are done."""
        fitted = [name for name in conditions if name in (TRAINED, SHUFFLED, CONTROL)]
        found = {name: self.outcome(name, kind, settings) for name in conditions if name not in fitted}
        y = [values for name in fitted for values in self.data(name)[1]]  # of one point all are fitted at once
        points = steps(self.x, "fitting probes, point by point", keep=True)
        done = torch.cat([self._decoded(x[None], y, kind, settings) for x in points], 1)
        found |= dict(zip(fitted, done.split(len(self.y)), strict=True))
        return {name: found[name][:, : done.shape[1]] for name in conditions}

    def _most_frequent(self, kind: str, settings: dict[str, Any]) -> Float[Tensor, "label place sequence"]:
        """The share right if the answer is always the most frequent class; for a regression the mean: R² is 0."""
        if kind == REGRESSION:
            return torch.zeros_like(self._from_token(kind, settings))
        return fitting.by_token(None, self.y, self.split)

    def _from_token(self, kind: str, settings: dict[str, Any]) -> Float[Tensor, "label place sequence"]:
        """The share decoded from the current token alone."""
        if kind != REGRESSION:
            return fitting.by_token(self.tokens, self.y, self.split)
        one_hot = torch.nn.functional.one_hot(self.tokens).float()[None]
        return self._decoded(one_hot, self.y, kind, settings)[:, 0]

    def _from_token_and_position(self, kind: str, settings: dict[str, Any]) -> Float[Tensor, "label place sequence"]:
        """The share decoded by a probe of the same kind that sees token and position alone.

        It sees one-hots of both, and both as numbers with their product and squares, so that labels which grow with
        them need no example of each. What it adds up is no function of pairs: for that there is `_from_pairs`. A label
        that is the position itself has no such baseline (NaN).
        """
        tokens, position = self.tokens, self.where.position.clamp(min=0)
        t, p = (each[..., None].float() / max(1, int(each.amax())) for each in (tokens, position))
        both = torch.cat([_columns(tokens), _columns(position), t, p, t * p, t * t, p * p], -1)
        return self._not_of_position(self._decoded(both[None], self.y, kind, settings)[:, 0])

    def _from_pairs(self, kind: str, settings: dict[str, Any]) -> Float[Tensor, "label place sequence"]:
        """The share decoded by a lookup: for each pair of token and position, its most frequent class (or mean).

        Tested are the rows whose pair a fitted row has: of others it can say nothing, and to count them as wrong would
        make a label that the pair decides look as if more were needed. Where pairs outnumber the fitted rows, most
        would be such rows; the lookup is refused (NaN). So it is for a label that is the position itself.
        """
        known, pairs = [], self._pairs
        for y, counts in zip(self.y, self.counts, strict=True):
            fitted = torch.zeros(len(y), y.shape[1], dtype=torch.bool)
            fitted[:, self.split.fit] = True
            fitted &= is_labelled(y)
            seen = torch.stack([torch.isin(each, each[fit]) for each, fit in zip(pairs, fitted, strict=True)])
            seen &= torch.tensor([one["pairs"] <= one["fitted"] for one in counts])[:, None]
            known.append(torch.where(seen if y.ndim == 2 else seen[..., None], y, -1))
        if kind == REGRESSION:
            one_hot = torch.nn.functional.one_hot(pairs).float()[None]
            found = self._decoded(one_hot, known, kind, settings)[:, 0]
        else:
            found = fitting.by_token(pairs, known, self.split)
        return self._not_of_position(found)

    @cached_property
    def _pairs(self) -> Int[Tensor, "place n"]:
        """A number for the pair of token and position at each row."""
        position = self.where.position.clamp(min=0)
        numbers: Tensor = (self.tokens * (int(position.amax()) + 1) + position).unique(return_inverse=True)[1]
        return numbers

    @cached_property
    def counts(self) -> list[list[dict[str, int]]]:
        """For each label and place the labelled rows that are `fitted` and `tested`, and their `pairs`."""
        return [
            [
                {
                    "fitted": int(known[self.split.fit].sum()),
                    "tested": int(known[self.split.test].sum()),
                    "pairs": len(pair[known].unique()),
                }
                for known, pair in zip(is_labelled(y), self._pairs, strict=True)
            ]
            for y in self.y
        ]

    def _not_of_position(self, found: Float[Tensor, "label place sequence"]) -> Float[Tensor, "label place sequence"]:
        """The same without labels that are the position itself (NaN)."""
        position = self.where.position.clamp(min=0)
        itself = torch.tensor([y.ndim == 2 and bool(((y == position) | (y < 0)).all()) for y in self.y])
        return torch.where(itself[:, None, None], torch.nan, found)

    def _decoded(self, x: Tensor, y: list[Tensor], kind: str, settings: dict[str, Any]) -> Tensor:
        return fitting.decode(x, y, self.split, kind=kind, generator=generator(self.seed, "probe"), **settings)


def _columns(values: Int[Tensor, "place n"]) -> Float[Tensor, "place n column"]:
    """One-hots of the most frequent values; all rarer ones share a column."""
    _, at, count = values.unique(return_inverse=True, return_counts=True)
    rank = torch.empty_like(count).scatter_(0, count.argsort(descending=True, stable=True), torch.arange(len(count)))
    return torch.nn.functional.one_hot(rank[at].clamp(max=MOST_COLUMNS - 1)).float()


def _shuffled(y: Int[Tensor, "place n *class"], chance: torch.Generator) -> Tensor:
    """The labels of each place, shuffled among the rows that have one."""
    mixed = y.clone()
    for place, row in enumerate(y):
        there = is_labelled(row, lead=1).nonzero()[:, 0]
        mixed[place, there] = row[there[torch.randperm(len(there), generator=chance)]]
    return mixed


def _control_task(tokens: Int[Tensor, "place n"], y: Int[Tensor, "place n *class"], chance: torch.Generator) -> Tensor:
    """Labels of the control task: each token has one, drawn from the true labels (Hewitt and Liang 2019, §2.1)."""
    there = is_labelled(y)
    values = y[there]
    if not len(values):  # at these positions only another of the labels asked for is known
        return y
    by_token = values[torch.randint(len(values), (int(tokens.amax()) + 1,), generator=chance)]
    return torch.where(there if y.ndim == 2 else there[..., None], by_token[tokens], -1)
