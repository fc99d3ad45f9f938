"""Heads as (layer, head): grouped by layer, and checked against a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

Head = tuple[int, int]
"""Layer and head, both from 0."""


def in_layers(heads: Sequence[Head]) -> dict[int, list[int]]:
    """Heads by their layer, each once: `[(0, 1), (0, 3), (2, 0)]` is `{0: [1, 3], 2: [0]}`."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in sorted(set(heads)):
        by_layer.setdefault(layer, []).append(head)
    return by_layer


def check_head(model: AnyHooked, layer: int | None, head: int | None) -> None:
    """Raise ValueError if the model has no such layer or head; None is every one."""
    n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
    if layer is not None and not 0 <= layer < n_layers:
        raise ValueError(f"there is no layer {layer}; the model has {n_layers}, from 0")
    if head is not None and not 0 <= head < n_heads:
        raise ValueError(f"there is no head {head}; the model has {n_heads}, from 0")
