"""Words for the places of a model that a measurement has values of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def point_name(point: Any) -> str:
    """A hook name as an axis label: `1 · mid` for `blocks.1.hook_resid_mid`, `embedding` for what enters layer 0."""
    text = str(point)
    if text == "blocks.0.hook_resid_pre":
        return "embedding"
    if not text.startswith("blocks."):
        return text
    _, layer, hook = text.split(".", 2)
    words = {"hook_attn_out": "attention's write", "hook_mlp_out": "MLP's write"}
    return f"{layer} · {words.get(hook, hook.removeprefix('hook_').removeprefix('resid_'))}"


def place_in_words(place: Mapping[str, Any]) -> str:
    """Where a value is, dim -> label: `0 · mid`, `layer 0, head 1`, `per sequence`."""
    return ", ".join(_in_words(dim, label) for dim, label in place.items())


def _in_words(dim: str, label: Any) -> str:
    if dim == "unit":
        return f"per {label}"
    is_point = dim in ("point", "layer") and isinstance(label, str)
    return point_name(label) if is_point else f"{dim} {label}"
