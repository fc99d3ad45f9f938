"""Edits of one input: an edge is cut or moved, a head or write is removed, a position holds what another one holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual import projection
from workbench.interventions.edit_protocol import (
    AtPosition,
    Hooks,
    check_head,
    head_in_words,
    heads_at,
    point_in_words,
    points,
    put,
    put_rows,
    span,
    writes,
)
from workbench.interventions.many_inputs import activation, cutting, exchanged
from workbench.models import AnyHooked
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

AVERAGED = 64  # held-out inputs behind a head's average
INSTEAD = {"zero": "nothing", "mean": "its average"}
"""What a removed head writes, in words."""


@dataclass(frozen=True)
class CutEdge:
    """A query cannot read a key: this entry of the attention pattern is 0, and what it gave is lost.

    The pattern is edited before the values are read, so that a ChaCAL layer loses every path over the edge.

    Attributes:
        query: the position that reads; None for every one.
        key: the position that is read; None for every one.
        layer, head: where; None for every one.
    """

    query: int | None
    key: int | None
    layer: int | None = None
    head: int | None = None

    def in_words(self, task: Task) -> str:
        where = head_in_words(self.layer, self.head)
        if self.key is None:
            return f"position {self.query} cannot read anything ({where})"
        reader = "no position can" if self.query is None else f"position {self.query} cannot"
        return f"{reader} read position {self.key} ({where})"

    def places(self, n_pos: int) -> Sequence[int]:
        return sorted({query for query, _ in self.edges(n_pos)})

    def edges(self, n_pos: int) -> list[tuple[int, int]]:
        """The edges that are cut, as (query, key).

        Raises:
            ValueError: if there is no such position, or the key comes after the query.
        """
        if self.query is None and self.key is None:
            raise ValueError("name a query or a key: without both, nothing would be read at all")
        queries, keys = span(self.query, n_pos), span(self.key, n_pos)
        edges = [(query, key) for query in queries for key in keys if key <= query]
        if not edges:
            raise ValueError(f"position {self.query} cannot read position {self.key}, which comes after it")
        return edges

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        edges = [(0, query, key) for query, key in self.edges(seen.batch.tokens.shape[1])]
        return cutting(model, seen.batch, edges, heads_at(model, self.layer, self.head))


@dataclass(frozen=True)
class RemoveHead(AtPosition):
    """A head reads nothing, or what it reads on average: its `hook_z` is replaced.

    Attributes:
        layer, head: the head.
        by: `zero`, or `mean`: the average over all positions of 64 held-out inputs.
        position: where; None for every position.
    """

    layer: int
    head: int
    by: Literal["zero", "mean"] = "zero"
    position: int | None = None

    def in_words(self, task: Task) -> str:
        what = INSTEAD.get(self.by, self.by)
        return f"{head_in_words(self.layer, self.head)} writes {what}{self.where_in_words}"

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        check_head(model, self.layer, self.head)
        lookup(INSTEAD, self.by, "way to remove a head")
        name, values = f"blocks.{self.layer}.attn.hook_z", torch.zeros(())
        if self.by == "mean":
            task = seen.subject.task
            tokens = task.sample(AVERAGED, generator(0, "what heads read on average"), split="test").tokens
            read = activation(model, tokens, name)  # [batch, pos, head, d_head]
            real = torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None]
            values = read[real.to(read.device)].mean(0)[self.head]
        where = self.mask(seen)[:, None] & (torch.arange(model.cfg.n_heads) == self.head)
        return [(name, partial(put, where=where[..., None], values=values))]


@dataclass(frozen=True)
class RemoveWrite(AtPosition):
    """An attention layer or an MLP writes nothing.

    Attributes:
        point: one of `writes(subject)`.
        position: where; None for every position.
    """

    point: str
    position: int | None = None

    def in_words(self, task: Task) -> str:
        return f"{point_in_words(self.point)}: nothing is written{self.where_in_words}"

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        lookup(dict.fromkeys(writes(seen.subject)), self.point, "point")
        where = self.mask(seen)
        return [(self.point, partial(put, where=where[:, None], values=torch.zeros(())))]


@dataclass(frozen=True)
class MoveEdge:
    """A query reads another key in place of one: the one's weight in the attention pattern goes to the other.

    The row keeps its sum. The pattern is edited before the values are read, so that in a ChaCAL layer every path over
    the old edge goes over the new one.

    Attributes:
        query: the position that reads.
        key: the position that it reads no more.
        to: the position that it reads in its place.
        layer, head: where; None for every one.
    """

    query: int
    key: int
    to: int
    layer: int | None = None
    head: int | None = None

    def in_words(self, task: Task) -> str:
        where = head_in_words(self.layer, self.head)
        return f"position {self.query} reads position {self.to} in place of {self.key} ({where})"

    def places(self, n_pos: int) -> Sequence[int]:
        for key in (self.key, self.to):
            span(key, n_pos)
            if key > self.query:
                raise ValueError(f"position {self.query} cannot read position {key}, which comes after it")
        if self.key == self.to:
            raise ValueError(f"the edge from position {self.query} to {self.key} leads there already; name another key")
        return span(self.query, n_pos)

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        check_head(model, self.layer, self.head)
        self.places(seen.batch.tokens.shape[1])
        layers = range(model.cfg.n_layers) if self.layer is None else [self.layer]

        def move(pattern: Float[Tensor, "batch head query key"], hook: Any) -> Tensor:
            edited = pattern.clone()
            rows = edited[:, slice(None) if self.head is None else self.head, self.query]
            rows[..., self.to] += rows[..., self.key]
            rows[..., self.key] = 0
            return edited

        return [(f"blocks.{layer}.attn.hook_pattern", move) for layer in layers]


@dataclass(frozen=True)
class Patch(AtPosition):
    """A position gets the activation that a position of another input has, at the same hook point or another one.

    Attributes:
        point: one of `points(subject)`.
        other: the other input, in the task's own words, as `task.parse` takes it.
        position: where; None for every position, of an input of the same length.
        other_position: of the other input; by default the same.
        other_point: of the other input; by default the same. `swap` tries all pairs of points.
    """

    point: str
    other: str
    position: int | None = None
    other_position: int | None = None
    other_point: str | None = None

    def in_words(self, task: Task) -> str:
        where = point_in_words(self.point)
        if self.other_point not in (None, self.point):
            where = f"{where}, from {point_in_words(str(self.other_point))}"
        if self.position is None:
            return f"every position holds what it holds in another input ({where})"
        source = self.position if self.other_position is None else self.other_position
        what = f"position {self.position} holds what position {source} of another input holds"
        return f"{what} ({where})"

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        source = self.other_point or self.point
        for point in (self.point, source):
            lookup(dict.fromkeys(points(seen.subject)), point, "point")
        n_pos, source_tokens = seen.batch.tokens.shape[1], seen.subject.task.parse(self.other).tokens
        n_other = source_tokens.shape[1]
        places = list(self.places(n_pos))
        if self.position is None:
            if self.other_position is not None:
                raise ValueError("a position of the other input goes to one position: say which")
            if n_other != n_pos:
                raise ValueError(f"the other input has {n_other} tokens, this one {n_pos}: name a position of each")
            sources = places
        else:
            source_position = self.position if self.other_position is None else self.other_position
            try:
                sources = list(span(source_position, n_other))
            except ValueError as error:
                raise ValueError(f"of the other input: {error}") from None
        values = activation(model, source_tokens, source)[0, sources]
        example = torch.zeros(len(places), dtype=torch.long)
        return [(self.point, partial(put_rows, example=example, position=torch.tensor(places), values=values))]


@dataclass(frozen=True)
class Exchange(AtPosition):
    """The coordinates of two tokens change places (`interventions.exchanged`); all else that is held stays.

    Attributes:
        point: one of `points(subject)`.
        first, second: token ids.
        position: where; None for every position.
        basis: `encoder` or `decoder`.
    """

    point: str
    first: int
    second: int
    position: int | None = None
    basis: str = "decoder"

    def in_words(self, task: Task) -> str:
        first, second = task.words(torch.tensor([self.first, self.second]))
        what = f"the coordinates of {first} and {second} in the {self.basis} basis are exchanged"
        return f"{what}{self.where_in_words or ' everywhere'} ({point_in_words(self.point)})"

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        lookup(dict.fromkeys(points(seen.subject)), self.point, "point")
        basis = projection.basis(seen.subject, self.basis)
        for token in (self.first, self.second):
            if not 0 <= token < len(basis):
                raise ValueError(f"there is no token {token}; the vocabulary has {len(basis)}, from 0")
        if self.first == self.second:
            raise ValueError("two tokens are exchanged; these are the same one")
        where = self.mask(seen)[:, None]
        ids = [torch.tensor([token]) for token in (self.first, self.second)]

        def exchange(activation: Tensor, hook: Any) -> Tensor:
            return put(activation, hook, where=where, values=exchanged(activation, basis, *ids))

        return [(self.point, exchange)]
