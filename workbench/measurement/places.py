"""Words for the places of a model that a measurement has values of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POINTS = ("layer", "point")  # dims whose labels are hook names
WRITTEN_BY = {
    "resid_mid": "after attention {}",
    "resid_post": "after MLP {}",
    "resid_pre": "before layer {}",
    "attn_out": "attention {}'s write",
    "mlp_out": "MLP {}'s write",
}


def point_name(point: Any) -> str:
    """A hook name as an axis label: `after attention 1`, `after MLP 1`; `embedding` for what enters layer 0."""
    text = str(point)
    if text == "blocks.0.hook_resid_pre":
        return "embedding"
    if not text.startswith("blocks."):
        return text
    _, layer, hook = text.split(".", 2)
    name = hook.removeprefix("hook_")
    return WRITTEN_BY[name].format(layer) if name in WRITTEN_BY else f"{layer} · {name}"


def at_point(point: Any) -> str:
    """The same within a sentence: `after attention 1`, `at the embedding`, `at MLP 1's write`."""
    name = point_name(point)
    return name if name.startswith(("after", "before")) else f"at {'the ' if name == 'embedding' else ''}{name}"


def place_in_words(place: Mapping[str, Any]) -> str:
    """Where a value is, dim -> label: `after attention 0`, `layer 0, head 1`, `per sequence`."""
    words = []
    for dim, label in place.items():
        is_point = dim in POINTS and isinstance(label, str)
        words.append(f"per {label}" if dim == "unit" else point_name(label) if is_point else f"{dim} {label}")
    return ", ".join(words)
