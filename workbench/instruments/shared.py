"""What many instruments have in common: to which models they apply, what they capture, a few positions at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import LOGITS, Subject

AT_ONCE = 2**21  # numbers of one kind


def no_reason(subject: Subject) -> None:
    """`why_not` of an instrument that can be measured on every model and task."""


def logits_alone(subject: Subject) -> list[str]:
    """`needs` of an instrument of the answers."""
    return [LOGITS]


def by_rows(of: Callable[..., Tensor], *given: Float[Tensor, "*batch d"], width: int) -> Float[Tensor, "*batch *each"]:
    """What a function gives for each position, as if it were given all positions at once.

    So what each position has over a whole vocabulary never stands in memory for all of them.

    Args:
        of: takes a few rows `[row, d]` of each tensor, and returns `[row, …]`.
        given: tensors that are alike in all dims but the last.
        width: how many numbers stand in memory for a row: the size of the vocabulary.
    """
    size = max(1, AT_ONCE // max(1, width))
    rows = [x.reshape(-1, x.shape[-1]) for x in given]
    parts = [of(*some) for some in zip(*(x.split(size) for x in rows), strict=True)]
    return torch.cat(parts).unflatten(0, given[0].shape[:-1])
