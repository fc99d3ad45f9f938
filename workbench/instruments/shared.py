"""What many instruments have in common: to which models they apply, what they capture, which positions they read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject
from workbench.measurement import Measurement
from workbench.util.seeds import generator

AT_ONCE = 2**23  # numbers of one kind: many rows, for all of which the matrix of a large vocabulary is read once
READ, LEAST_READ = 2**18, 8  # numbers over the vocabulary for each point of a sequence, and the fewest of its positions


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


def most_read(capture: Capture) -> int:
    """The most positions of a sequence that a whole vocabulary is read at: all of them, unless the vocabulary is large.

    What a residual decodes to takes a multiplication for each weight of the unembedding, at each of many points: at all
    positions of a language model that would be dozens of forward passes.
    """
    return max(LEAST_READ, READ // len(capture.subject.decoder))


def positions_read(capture: Capture, mask: Bool[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    """Of these positions those at which a whole vocabulary is read: of each sequence `most_read` at most.

    Where there are more, they are spread over the sequence: one drawn from each of as many stretches, with one seed.
    """
    mask, most = mask.cpu(), most_read(capture)
    count = mask.sum(1, keepdim=True)
    ends = torch.arange(most + 1) * count // most  # of the stretches, in places among the sequence's positions
    draws = torch.rand(len(mask), most, generator=generator(0, "positions read"))
    place = ends[:, :-1] + (draws * ends.diff(dim=1)).long()
    taken = torch.zeros_like(mask).scatter_(1, place.clamp(max=mask.shape[1] - 1), True)
    drawn = taken.gather(1, (mask.cumsum(1) - 1).clamp(min=0))
    return mask & (drawn | (count <= most))


def said_of_sample(measured: Measurement, capture: Capture) -> Measurement:
    """The measurement with the sample of positions that it was read at, where it was not read at all of them."""
    most, length = most_read(capture), capture.batch.tokens.shape[1]
    if length <= most:
        return measured
    caption = f"{measured.caption} Read at {most} of the {length:,} positions of each sequence, drawn at random."
    return replace(measured, caption=caption, settings={**measured.settings, "positions read": most})
