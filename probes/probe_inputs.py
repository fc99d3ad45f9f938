"""The vectors that probes read, gathered from a model batch by batch, or from a capture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, visit
from workbench.models import AnyHooked, AnyModel, Decoder
from workbench.models.hooked import hook
from workbench.probes.positions import Rows
from workbench.tasks import Batch
from workbench.util.memory import check_memory

AT_ONCE, TOKENS = 256, 2048  # sequences of a decoder of ours at a time, and tokens of another model, which is larger


def vectors(activation: Tensor, point: str) -> Float[Tensor, "batch pos d"]:
    """One vector per position: heads are put one after the other.

    Raises:
        ValueError: if the point has no vector per position (a pattern, or scores).
    """
    if point.endswith(("hook_pattern", "hook_attn_scores")):
        raise ValueError(f"{point} has no vector per position to probe; a residual, hook_z, hook_mlp_out and others do")
    return activation.flatten(2)


def from_model(
    model: AnyHooked | AnyModel, batch: Batch, points: Sequence[str], rows: Rows
) -> Float[Tensor, "point place n d"]:
    """The vectors at these points and rows; no other activation is kept.

    Args:
        model: hooked or not; a decoder is hooked if a point needs it.
        batch: the inputs.
        points: hook names.
        rows: which positions.

    Raises:
        ValueError: if there is no such point, it has no vector per position, the points are not of one width, or the
            vectors do not fit in memory.
    """
    at_once = AT_ONCE if isinstance(model, Decoder) else max(1, min(AT_ONCE, TOKENS // batch.tokens.shape[1]))
    if isinstance(model, Decoder) and not set(points) <= set(model.activation_names):
        model = hook(model)  # the decoder itself is the faster
    number = {point: at for at, point in enumerate(points)}
    widths: dict[str, int] = {}
    gathered = torch.empty(0)
    for start in range(0, len(batch), at_once):
        part = slice(start, start + at_once)
        inside = ((rows.example >= start) & (rows.example < start + at_once)).nonzero()[:, 0]
        here = Rows(rows.example[inside] - start, rows.position[:, inside], rows.names)

        def see(point: str, activation: Tensor, here: Rows = here, inside: Tensor = inside) -> None:
            nonlocal gathered
            taken = here.take(vectors(activation, point)).float()
            if not widths:
                shape = (len(points), len(rows.names), len(rows.example), taken.shape[-1])
                check_memory(4 * prod(shape), "the vectors that probes read")
                gathered = torch.empty(shape)
            widths[point] = taken.shape[-1]
            if taken.shape[-1] == gathered.shape[-1]:
                gathered[number[point]][:, inside] = taken

        visit(model, batch.tokens[part], points, see)
        _check_widths(widths)
    return gathered


def from_capture(captured: Capture, points: Sequence[str], rows: Rows) -> Float[Tensor, "point place n d"]:
    """The same from a capture; raises ValueError likewise."""
    parts = {point: rows.take(vectors(captured[point], point)).float() for point in points}
    _check_widths({point: part.shape[-1] for point, part in parts.items()})
    return torch.stack(list(parts.values()))


def _check_widths(widths: Mapping[str, int]) -> None:
    """Raise ValueError if the points are not of one width."""
    if len(set(widths.values())) > 1:
        several = {width: point for point, width in widths.items()}
        listed = ", ".join(f"{point} is {width} wide" for width, point in several.items())
        raise ValueError(f"points of one width are probed together: {listed}")
