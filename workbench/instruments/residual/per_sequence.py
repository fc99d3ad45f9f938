"""A measure of one matrix for every sequence of a capture, over its real tokens or a range of them, layer by layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.residual.projection import from_embedding
from workbench.measurement import Measurement

Positions = Literal["all", "input", "output"] | tuple[int | None, int | None]


def spans(capture: Capture, positions: Positions) -> Int[Tensor, "example 2"]:
    """The first position of the range in each example, and the one after its last; padding is never in it.

    Args:
        capture: the examples.
        positions: `"all"` real tokens; `"input"`, those before the first scored position; `"output"`, those from it on;
            or `(start, stop)`, with the meaning of a slice of the real tokens.

    Raises:
        ValueError: if positions are none of these.
    """
    batch = capture.batch
    lengths = capture.subject.task.lengths(batch.tokens).cpu()
    pair = isinstance(positions, tuple | list) and len(positions) == 2
    if pair and all(bound is None or isinstance(bound, int) for bound in positions):
        cut = slice(*positions)
        return torch.tensor([cut.indices(length)[:2] for length in lengths.tolist()]).view(-1, 2)
    scored = batch.loss_mask.cpu()
    first = torch.where(scored.any(-1), scored.long().argmax(-1), lengths)
    nothing = torch.zeros_like(lengths)
    ranges = {"all": (nothing, lengths), "input": (nothing, first), "output": (first, lengths)}
    if not isinstance(positions, str) or positions not in ranges:
        raise ValueError(f"positions must be all, input, output or (start, stop), not {positions!r}")
    return torch.stack(ranges[positions], dim=-1)


def per_sequence(
    capture: Capture,
    points: Sequence[str],
    positions: Positions,
    measure: Callable[[Tensor], Tensor],
    each: tuple[int, ...] = (),
) -> Float[np.ndarray, "layer *each example"]:
    """One measure of every sequence at every point; NaN where a sequence has no token in the range.

    Args:
        capture: activations `[batch, pos, d]`.
        points: their hook names.
        positions: which tokens; see `spans`.
        measure: `[n, pos, d]` -> `[n, *each]`, of sequences of one length.
        each: the shape of one sequence's result.
    """
    bounds = spans(capture, positions)
    values = np.full((len(points), *each, len(bounds)), np.nan)
    for i, point in enumerate(points):
        for start, stop in bounds.unique(dim=0).tolist():  # sequences of one range at a time stay batched
            if stop <= start:
                continue
            rows = (bounds == torch.tensor([start, stop])).all(-1)
            whole = capture[point][:, start:stop]
            z = whole if bool(rows.all()) else whole[rows.to(whole.device)]
            values[i, ..., rows.numpy()] = measure(z).cpu().numpy()
    return values


def by_layer(
    capture: Capture,
    measure: Callable[[Tensor], Tensor],
    *,
    name: str,
    units: str,
    caption: str,
    positions: Positions,
    points: Sequence[str] | None,
    settings: Mapping[str, Any] = {},
    aside: Sequence[str] = (),
) -> Measurement:
    """One number of every sequence at every residual point: dims `layer`, `example`.

    Args:
        capture: activations `[batch, pos, d]` of the points.
        measure: `[n, pos, d]` -> `[n]`, of sequences of one length; with names `aside`, `[n, 1 + aside]`.
        name, units, caption, settings: those of the measurement.
        positions: which tokens; see `spans`.
        points: hook names, by default those of `projection.from_embedding`.
        aside: names of further numbers (`Measurement.aside`).

    Raises:
        ValueError: if positions are unknown, or a point was not captured.
    """
    points = from_embedding(capture.subject) if points is None else list(points)
    values = per_sequence(capture, points, positions, measure, (1 + len(aside),) if aside else ())
    own, *further = values.swapaxes(0, 1) if aside else [values]
    return Measurement(
        name=name,
        values=own,
        dims=("layer", "example"),
        coords={"layer": points},
        units=units,
        settings={"model": capture.subject.name, **settings, "positions": positions},
        caption=caption,
        aside=dict(zip(aside, further, strict=True)),
    )
