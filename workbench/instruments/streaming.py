"""An instrument over a whole test set, holding one activation of one batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from workbench.capture import Capture, Subject, visit
from workbench.instruments.measurement import Measurement
from workbench.models import Decoder
from workbench.tasks import Batch

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


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

    In memory are one batch, one of its activations and the numbers measured so far; the forward pass stops after the
    last point. Equal to joining `instrument.measure` of each batch's capture.

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
    values: list[np.ndarray] = []
    for batch in batches:
        found: dict[str, Measurement] = {}

        def see(name: str, activation: Any, batch: Batch = batch, found: dict[str, Measurement] = found) -> None:
            found[name] = instrument.measure(Capture({name: activation}, batch, subject), points=[name], **settings)

        visit(model, batch.tokens, points, see)
        if not found:
            raise ValueError("there is nothing to measure: no hook point was asked for")
        first = found[points[0]]
        along = next(dim for dim in first.dims if list(first.coords[dim]) == [points[0]])
        template = Measurement.join([found[point] for point in points], dim=along)
        values.append(template.values)
    if template is None:
        raise ValueError("there is nothing to measure: no batch was given")
    whole = np.concatenate(values, axis=template.axis("example"))
    examples = list(range(whole.shape[template.axis("example")]))
    return replace(template, values=whole, coords={**template.coords, "example": examples})
