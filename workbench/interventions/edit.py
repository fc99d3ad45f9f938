"""What an edit of one input is: its words, the positions that it changes, and its hooks in the forward pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from jaxtyping import Bool
from torch import Tensor

from workbench.capture import Capture
from workbench.interventions.hooks import Hooks
from workbench.tasks import Task

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked


class Edit(Protocol):
    """What every kind of edit of one input offers. A position that is None stands for every position."""

    def in_words(self, task: Task) -> str:
        """What is edited, for people."""

    def places(self, n_pos: int) -> Sequence[int]:
        """The positions at which something is changed.

        Raises:
            ValueError: if there is no such position.
        """

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        """The hooks that make the edit on the captured input.

        Raises:
            ValueError: if the model or the input has no such place or token.
        """


def span(position: int | None, n_pos: int) -> Sequence[int]:
    if position is None:
        return range(n_pos)
    if not 0 <= position < n_pos:
        raise ValueError(f"there is no position {position}; the input has {n_pos}, from 0")
    return [position]


def position_mask(places: Sequence[int], seen: Capture) -> Bool[Tensor, " pos"]:
    mask = torch.zeros(seen.batch.tokens.shape[1], dtype=torch.bool)
    mask[list(places)] = True
    return mask


def head_in_words(layer: int | None, head: int | None) -> str:
    where = "every layer" if layer is None else f"layer {layer}"
    return f"{where}, {'every head' if head is None else f'head {head}'}"


def position_in_words(position: int | None) -> str:
    return "" if position is None else f" at position {position}"
