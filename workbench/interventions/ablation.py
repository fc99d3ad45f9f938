"""Ablation on one input: an edge of attention is cut, a head is removed, or a layer writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, Subject, visit
from workbench.interventions.edges import cutting
from workbench.interventions.edit import head_in_words, position_in_words, position_mask, span
from workbench.interventions.heads import check_head
from workbench.interventions.hooks import Hooks, put
from workbench.interventions.points import check_point, point_in_words, writes
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

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
        return cutting(model, seen.batch, self.layer, edges, head=self.head)


@dataclass(frozen=True)
class RemoveHead:
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
        return f"{head_in_words(self.layer, self.head)} writes {what}{position_in_words(self.position)}"

    def places(self, n_pos: int) -> Sequence[int]:
        return span(self.position, n_pos)

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        check_head(model, self.layer, self.head)
        lookup(INSTEAD, self.by, "way to remove a head")
        name = f"blocks.{self.layer}.attn.hook_z"
        values = torch.zeros(()) if self.by == "zero" else _average(model, seen.subject, name)[self.head]
        where = position_mask(self.places(seen.batch.tokens.shape[1]), seen)[:, None] & (
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
        return f"{point_in_words(self.point)}: nothing is written{position_in_words(self.position)}"

    def places(self, n_pos: int) -> Sequence[int]:
        return span(self.position, n_pos)

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        check_point(self.point, writes(seen.subject))
        where = position_mask(self.places(seen.batch.tokens.shape[1]), seen)
        return [(self.point, partial(put, where=where[:, None], values=torch.zeros(())))]


def _average(model: AnyHooked, subject: Subject, name: str) -> Float[Tensor, "head d_head"]:
    """The mean of each head's `hook_z` over all positions of held-out inputs."""
    task = subject.task
    tokens = task.sample(AVERAGED, generator(0, "what heads read on average"), split="test").tokens
    captured: dict[str, Tensor] = {}
    visit(model, tokens, [name], captured.__setitem__)
    real = torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None]
    return captured[name][real.to(captured[name].device)].mean(0)
