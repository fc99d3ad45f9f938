"""The kinds of edits: what each changes inside the forward pass of one input, in words and as TransformerLens hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.capture import Capture, Subject, visit
from workbench.instruments.residual import projection
from workbench.interventions.edges import cutting
from workbench.interventions.heads import check_head
from workbench.interventions.points import check_point, point_in_words, points, writes
from workbench.interventions.residual import activation, exchanged
from workbench.interventions.writing import Hooks, put, put_rows
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

AVERAGED = 64  # held-out inputs behind a head's average
INSTEAD = {"zero": "nothing", "mean": "its average"}
NOTHING = torch.zeros(())


class Edit(Protocol):
    """What every kind of edit offers. A position that is None stands for every one."""

    def in_words(self, task: Task) -> str:
        """What is edited, for people."""

    def places(self, n_pos: int) -> Sequence[int]:
        """The positions at which something is changed.

        Raises:
            ValueError: if there is no such position.
        """

    def hooks(self, model: TransformerBridge, seen: Capture) -> Hooks:
        """How it is done to the input that was seen.

        Raises:
            ValueError: if the model or the input has no such place or token.
        """


@dataclass(frozen=True)
class CutEdge:
    """A query may not read a key: this entry of the attention pattern is 0, and what it gave is lost.

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
        where = _head(self.layer, self.head)
        if self.key is None:
            return f"position {self.query} may read nothing ({where})"
        reader = "no position may" if self.query is None else f"position {self.query} may not"
        return f"{reader} read position {self.key} ({where})"

    def places(self, n_pos: int) -> Sequence[int]:
        return sorted({query for query, _ in self.edges(n_pos)})

    def edges(self, n_pos: int) -> list[tuple[int, int]]:
        """What is cut, as (query, key).

        Raises:
            ValueError: if there is no such position, or the key comes after the query.
        """
        if self.query is None and self.key is None:
            raise ValueError("name a query or a key: without both, nothing would be read at all")
        queries, keys = _span(self.query, n_pos), _span(self.key, n_pos)
        found = [(query, key) for query in queries for key in keys if key <= query]
        if not found:
            raise ValueError(f"position {self.query} cannot read position {self.key}, which comes after it")
        return found

    def hooks(self, model: TransformerBridge, seen: Capture) -> Hooks:
        edges = [(0, query, key) for query, key in self.edges(seen.batch.tokens.shape[1])]
        return cutting(model, seen.batch, self.layer, edges, head=self.head)


@dataclass(frozen=True)
class RemoveHead:
    """What a head has read (`hook_z`) is nothing, or what it reads on average.

    Attributes:
        layer, head: which.
        by: `zero`, or `mean`: the average over all positions of 64 held-out inputs.
        position: where; None for every position.
    """

    layer: int
    head: int
    by: Literal["zero", "mean"] = "zero"
    position: int | None = None

    def in_words(self, task: Task) -> str:
        what = INSTEAD.get(self.by, self.by)
        return f"{_head(self.layer, self.head)} writes {what}{_at(self.position)}"

    def places(self, n_pos: int) -> Sequence[int]:
        return _span(self.position, n_pos)

    def hooks(self, model: TransformerBridge, seen: Capture) -> Hooks:
        check_head(model, self.layer, self.head)
        lookup(INSTEAD, self.by, "way to remove a head")
        name = f"blocks.{self.layer}.attn.hook_z"
        values = NOTHING if self.by == "zero" else _average(model, seen.subject, name)[self.head]
        where = _mask(self.places(seen.batch.tokens.shape[1]), seen)[:, None] & (
            torch.arange(model.cfg.n_heads) == self.head
        )
        return [(name, partial(put, where=where[..., None], values=values))]


@dataclass(frozen=True)
class RemoveWrite:
    """An attention layer or an MLP writes nothing.

    Attributes:
        point: one of `writes(subject)`.
        position: where; None for every position.
    """

    point: str
    position: int | None = None

    def in_words(self, task: Task) -> str:
        return f"{point_in_words(self.point)}: nothing is written{_at(self.position)}"

    def places(self, n_pos: int) -> Sequence[int]:
        return _span(self.position, n_pos)

    def hooks(self, model: TransformerBridge, seen: Capture) -> Hooks:
        check_point(self.point, writes(seen.subject))
        where = _mask(self.places(seen.batch.tokens.shape[1]), seen)
        return [(self.point, partial(put, where=where[:, None], values=NOTHING))]


@dataclass(frozen=True)
class Patch:
    """A position holds what a position of another input holds there.

    Attributes:
        point: one of `points(subject)`.
        other: the other input, in the task's own words, as `task.parse` takes it.
        position: where; None for every position, of an input of the same length.
        other_position: of the other input; by default the same.
    """

    point: str
    other: str
    position: int | None = None
    other_position: int | None = None

    def in_words(self, task: Task) -> str:
        if self.position is None:
            return f"every position holds what it holds in another input ({point_in_words(self.point)})"
        source = self.position if self.other_position is None else self.other_position
        what = f"position {self.position} holds what position {source} of another input holds"
        return f"{what} ({point_in_words(self.point)})"

    def places(self, n_pos: int) -> Sequence[int]:
        return _span(self.position, n_pos)

    def hooks(self, model: TransformerBridge, seen: Capture) -> Hooks:
        check_point(self.point, points(seen.subject))
        n_pos, other = seen.batch.tokens.shape[1], seen.subject.task.parse(self.other).tokens
        n_other = other.shape[1]
        places = list(self.places(n_pos))
        if self.position is None:
            if self.other_position is not None:
                raise ValueError("a position of the other input goes to one position: say which")
            if n_other != n_pos:
                raise ValueError(f"the other input has {n_other} tokens, this one {n_pos}: name a position of each")
            sources = places
        else:
            try:
                sources = list(_span(self.position if self.other_position is None else self.other_position, n_other))
            except ValueError as error:
                raise ValueError(f"of the other input: {error}") from None
        values = activation(model, other, self.point)[0, sources]
        example = torch.zeros(len(places), dtype=torch.long)
        return [(self.point, partial(put_rows, example=example, position=torch.tensor(places), values=values))]


@dataclass(frozen=True)
class Exchange:
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
        return f"{what}{_at(self.position) or ' everywhere'} ({point_in_words(self.point)})"

    def places(self, n_pos: int) -> Sequence[int]:
        return _span(self.position, n_pos)

    def hooks(self, model: TransformerBridge, seen: Capture) -> Hooks:
        check_point(self.point, points(seen.subject))
        basis = projection.basis(seen.subject, self.basis)
        for token in (self.first, self.second):
            if not 0 <= token < len(basis):
                raise ValueError(f"there is no token {token}; the vocabulary has {len(basis)}, from 0")
        if self.first == self.second:
            raise ValueError("two tokens are exchanged; these are the same one")
        where = _mask(self.places(seen.batch.tokens.shape[1]), seen)[:, None]
        ids = [torch.tensor([token]) for token in (self.first, self.second)]

        def exchange(activation: Tensor, hook: Any) -> Tensor:
            return put(activation, hook, where=where, values=exchanged(activation, basis, *ids))

        return [(self.point, exchange)]


def _span(position: int | None, n_pos: int) -> Sequence[int]:
    if position is None:
        return range(n_pos)
    if not 0 <= position < n_pos:
        raise ValueError(f"there is no position {position}; the input has {n_pos}, from 0")
    return [position]


def _mask(places: Sequence[int], seen: Capture) -> Bool[Tensor, " pos"]:
    mask = torch.zeros(seen.batch.tokens.shape[1], dtype=torch.bool)
    mask[list(places)] = True
    return mask


def _head(layer: int | None, head: int | None) -> str:
    where = "every layer" if layer is None else f"layer {layer}"
    return f"{where}, {'every head' if head is None else f'head {head}'}"


def _at(position: int | None) -> str:
    return "" if position is None else f" at position {position}"


def _average(model: TransformerBridge, subject: Subject, name: str) -> Float[Tensor, "head d_head"]:
    """What each head has read, on average over the positions of held-out inputs."""
    task = subject.task
    tokens = task.sample(AVERAGED, generator(0, "what heads read on average"), split="test").tokens
    found: dict[str, Tensor] = {}
    visit(model, tokens, [name], found.__setitem__)
    real = torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None]
    return found[name][real.to(found[name].device)].mean(0)
