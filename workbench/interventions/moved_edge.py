"""`MoveEdge`: on one input, what a query reads of one key it reads of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.interventions.edit import head_in_words, span
from workbench.interventions.heads import check_head
from workbench.interventions.hooks import Hooks
from workbench.tasks import Task

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


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
        return [(f"blocks.{layer}.attn.hook_pattern", partial(_moved, edit=self)) for layer in layers]


def _moved(
    pattern: Float[Tensor, "batch head query key"], hook: Any, edit: MoveEdge
) -> Float[Tensor, "batch head query key"]:
    edited = pattern.clone()
    rows = edited[:, slice(None) if edit.head is None else edit.head, edit.query]
    rows[..., edit.to] += rows[..., edit.key]
    rows[..., edit.key] = 0
    return edited
