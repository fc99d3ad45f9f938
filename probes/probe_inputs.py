"""The vectors that probes read, gathered from a model batch by batch, or from a capture."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture, visit
from workbench.models import AnyHooked, AnyModel, Decoder
from workbench.models.hooked import hook
from workbench.probes.positions import Rows
from workbench.tasks import Batch
from workbench.util.memory import check_memory

AT_ONCE = 256  # sequences


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
    if isinstance(model, Decoder) and not set(points) <= set(model.activation_names):
        model = hook(model)  # the decoder itself is the faster
    gathered: dict[str, Tensor] = {}
    for start in range(0, len(batch), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        inside = ((rows.example >= start) & (rows.example < start + AT_ONCE)).nonzero()[:, 0]
        here = Rows(rows.example[inside] - start, rows.position[:, inside], rows.names)

        def see(point: str, activation: Tensor, here: Rows = here, inside: Tensor = inside) -> None:
            taken = here.take(vectors(activation, point)).float()
            if point not in gathered:
                shape = (len(rows.names), len(rows.example), taken.shape[-1])
                check_memory(len(points) * 4 * shape[0] * shape[1] * shape[2], "the vectors that probes read")
                gathered[point] = torch.empty(shape)
            gathered[point][:, inside] = taken

        visit(model, batch.tokens[part], points, see)
    return _stacked([gathered[point] for point in points], points)


def from_capture(captured: Capture, points: Sequence[str], rows: Rows) -> Float[Tensor, "point place n d"]:
    """The same from a capture; raises ValueError likewise."""
    return _stacked([rows.take(vectors(captured[point], point)).float() for point in points], points)


def _stacked(parts: Sequence[Tensor], points: Sequence[str]) -> Tensor:
    widths = {part.shape[-1]: point for part, point in zip(parts, points, strict=True)}
    if len(widths) > 1:
        listed = ", ".join(f"{point} is {width} wide" for width, point in widths.items())
        raise ValueError(f"points of one width are probed together: {listed}")
    return torch.stack(list(parts))
