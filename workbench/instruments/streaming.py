"""`over_batches`: an instrument over a whole test set, with one activation of one batch in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Protocol

import numpy as np

from workbench.capture import Capture, Subject, visit
from workbench.measurement import Measurement
from workbench.models import AnyHooked, AnyModel
from workbench.tasks import Batch

TOKENS = 2048  # at a time on a CPU
LEAST_ROOM = 4096  # examples


class _PointByPoint(Protocol):
    """An instrument that looks at each hook point by itself: `entropy`, `projection`."""

    def needs(self, subject: Subject) -> list[str]: ...

    def measure(self, capture: Capture, *, points: Sequence[str] | None, **settings: Any) -> Measurement: ...


def over_batches(
    instrument: _PointByPoint,
    model: AnyHooked | AnyModel,
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
    if not points:
        raise ValueError("there is nothing to measure: no hook point was asked for")
    growing: _Growing | None = None
    for batch in chain.from_iterable(map(in_parts, batches)):
        measured = _measured(instrument, model, subject, batch, points, settings)
        growing = _Growing(measured) if growing is None else growing
        growing.add(measured.values)
    if growing is None:
        raise ValueError("there is nothing to measure: no batch was given")
    return growing.measurement()


def _measured(
    instrument: _PointByPoint,
    model: AnyHooked | AnyModel,
    subject: Subject,
    batch: Batch,
    points: Sequence[str],
    settings: dict[str, Any],
) -> Measurement:
    """One batch's measurement, made point by point as the model runs."""
    by_point: dict[str, Measurement] = {}

    def see(name: str, activation: Any) -> None:
        by_point[name] = instrument.measure(Capture({name: activation}, batch, subject), points=[name], **settings)

    visit(model, batch.tokens, points, see)
    first = by_point[points[0]]
    along = next(dim for dim in first.dims if list(first.coords[dim]) == [points[0]])
    return Measurement.join([by_point[point] for point in points], dim=along)


class _Growing:
    """Measurements of successive batches, joined along `example` in one array that grows.

    Many small arrays, kept between large ones that come and go, would leave holes in memory.
    """

    def __init__(self, first: Measurement) -> None:
        self.first, self.n, self.store = first, 0, np.empty((*first.values.shape[:-1], 0))

    def add(self, values: np.ndarray) -> None:
        end = self.n + values.shape[-1]
        if end > self.store.shape[-1]:
            grown = np.empty((*values.shape[:-1], max(self.n + self.n // 2, end, LEAST_ROOM)))
            grown[..., : self.n] = self.store[..., : self.n]
            self.store = grown
        self.store[..., self.n : end] = values
        self.n = end

    def measurement(self) -> Measurement:
        coords = {**self.first.coords, "example": list(range(self.n))}
        return replace(self.first, values=self.store[..., : self.n], coords=coords, aside={})


def in_parts(batch: Batch) -> Iterator[Batch]:
    """The batch, on a CPU a few sequences at a time."""
    n_rows = len(batch)
    if batch.tokens.device.type == "cpu":
        n_rows = max(1, TOKENS // max(1, batch.tokens.shape[1]))
    return (batch[start : start + n_rows] for start in range(0, len(batch), n_rows))
