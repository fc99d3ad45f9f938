"""The points of a forward pass that can be edited: hook names of the residual and of what is written to it."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.capture import Subject
from workbench.instruments.residual import projection
from workbench.util.lookup import lookup


def writes(subject: Subject) -> list[str]:
    """Hook names of what attention and the MLP, if there is one, write, layer by layer."""
    parts = ("attn",) if subject.attention_only else ("attn", "mlp")
    return [f"blocks.{layer}.hook_{part}_out" for layer in range(subject.n_layers) for part in parts]


def points(subject: Subject) -> list[str]:
    """Hook names of the residual, from the embedding on, and then of what is written to it."""
    return [*projection.from_embedding(subject), *writes(subject)]


def point_in_words(point: str) -> str:
    """One of `points` in words, such as `layer 0, after attention`."""
    if point == "blocks.0.hook_resid_pre":
        return "the embedding"
    parts = point.split(".")
    words = {
        "hook_resid_mid": "after attention",
        "hook_resid_post": "after the MLP",
        "hook_attn_out": "attention's write",
        "hook_mlp_out": "the MLP's write",
    }
    return f"layer {parts[1]}, {words[parts[2]]}" if len(parts) == 3 and parts[2] in words else point


def check_point(point: str, there: Sequence[str]) -> None:
    lookup(dict.fromkeys(there), point, "point")
