"""An instrument over a whole test set, holding one activation of one batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from workbench.capture import Capture, Subject, visit
from workbench.measurement import Measurement
from workbench.models import Decoder
from workbench.tasks import Batch

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


TOKENS = 2048  # at a time on a CPU


class PointByPoint(Protocol):
    """An instrument that looks at each hook point by itself: `entropy`, `projection`."""

    def needs(self, subject: Subject) -> list[str]: ...

    def measure(self, capture: Capture, *, points: Sequence[str] | None, **settings: Any) -> Measurement: ...


def over_batches(
    instrument: PointByPoint,
    model: TransformerBridge | Decoder,
    subject: Subject,
    batches: Iterable[Batch],
    *,
    points: Sequence[str] | None = None,
    **settings: Any,
) -> Measurement:
    """Measure every batch, each hook point as soon as the model has computed it.

    In memory are one batch, one activation of it and the numbers measured so far; the forward pass stops after the last
    point, and on a CPU takes a few sequences at a time, which is less memory and no slower. Equal to joining
    `instrument.measure` of each batch's capture.

    Args:
        instrument: the `entropy` or `projection` module, or another that measures point by point.
        model: the decoder, which is fastest, or its hooked copy, for points that only this one has.
        subject: the model's facts.
        batches: what to measure on; an iterator is drawn from one batch at a time.
        points: hook names, by default those that the instrument needs.
        settings: the instrument's own.

    Raises:
        ValueError: if there is no batch or no point, or the model has not one of the points.
    """
    points = list(instrument.needs(subject) if points is None else points)
    template: Measurement | None = None
    n, store = 0, np.empty(0)
    for batch in chain.from_iterable(map(_parts, batches)):
        found: dict[str, Measurement] = {}

        def see(name: str, activation: Any, batch: Batch = batch, found: dict[str, Measurement] = found) -> None:
            found[name] = instrument.measure(Capture({name: activation}, batch, subject), points=[name], **settings)

        visit(model, batch.tokens, points, see)
        if not found:
            raise ValueError("there is nothing to measure: no hook point was asked for")
        first = found[points[0]]
        along = next(dim for dim in first.dims if list(first.coords[dim]) == [points[0]])
        template = Measurement.join([found[point] for point in points], dim=along)
        # One array that grows: many small ones, kept between large ones that come and go, would leave holes in memory
        new = template.values
        if n + new.shape[-1] > store.shape[-1]:
            grown = np.empty((*new.shape[:-1], max(n + n // 2, n + new.shape[-1], 4096)))
            grown[..., :n] = store[..., :n] if n else 0
            store = grown
        store[..., n : n + new.shape[-1]] = new
        n += new.shape[-1]
    if template is None:
        raise ValueError("there is nothing to measure: no batch was given")
    return replace(template, values=store[..., :n], coords={**template.coords, "example": list(range(n))})


def _parts(batch: Batch) -> Iterator[Batch]:
    """The batch, on a CPU a few sequences at a time."""
    n_rows = len(batch)
    if batch.tokens.device.type == "cpu":
        n_rows = max(1, TOKENS // max(1, batch.tokens.shape[1]))
    return (batch[start : start + n_rows] for start in range(0, len(batch), n_rows))
