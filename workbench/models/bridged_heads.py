"""Attention heads in TransformerLens's bridges: what hooks see of a layer's heads is `[batch, pos, head, width]`.

A bridge cuts queries, keys, values and what is read by the one width of a head that it knows. Where a layer has
another (of DeepSeek's latent attention it is the width of the rotated part; Qwen 3.5 lays a gate beside each head's
queries) or lays heads before positions, hooks would see parts of heads, or heads as positions. Shapes tell: the model
is run once.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.conversion_utils.conversion_steps.base_tensor_conversion import BaseTensorConversion
from transformer_lens.model_bridge import TransformerBridge

HEADS = tuple(f"attn.hook_{part}" for part in "qkvz")


class HeadsFirst(BaseTensorConversion):
    """What a layer holds as `[batch, head, pos, width]`, as hooks see it."""

    def handle_conversion(
        self, given: Float[Tensor, "batch head pos width"], *context: Any
    ) -> Float[Tensor, "batch pos head width"]:
        return given.transpose(1, 2)

    revert = handle_conversion


class HeadsInARow(BaseTensorConversion):
    """What a layer holds as `[batch, pos, head * width]`, as hooks see it."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads

    def handle_conversion(
        self, given: Float[Tensor, "batch pos d"], *context: Any
    ) -> Float[Tensor, "batch pos head width"]:
        return given.unflatten(-1, (self.n_heads, -1))

    def revert(self, seen: Float[Tensor, "batch pos head width"], *context: Any) -> Float[Tensor, "batch pos d"]:
        return seen.flatten(2)


@torch.no_grad()
def show_heads(bridge: TransformerBridge, tokens: Int[Tensor, "batch pos"]) -> int:
    """Let `hook_q`, `hook_k`, `hook_v` and `hook_z` of every layer show heads; returns how wide what one reads is.

    Args:
        bridge: the bridge, whose hook points are changed so.
        tokens: a few tokens.

    Raises:
        ValueError: if a layer has another number of heads than the model.
    """
    n_heads, width = bridge.cfg.n_heads, bridge.cfg.d_head
    length = next((n for n in range(tokens.shape[1], 1, -1) if n_heads % n), 1)  # one that is no number of heads
    _, cache = bridge.run_with_cache(
        tokens[:, :length], names_filter=lambda name: name.endswith((*HEADS, "attn.hook_pattern"))
    )
    for name, seen in cache.items():
        point = bridge.hook_dict[name]
        if name.endswith("pattern") and seen.shape[1] != n_heads:
            raise ValueError(f"layers have different numbers of heads: {name} has {seen.shape[1]}, others {n_heads}")
        if not name.endswith(HEADS):
            continue
        if seen.shape[1] != length:
            point.hook_conversion, point.pos_dim = HeadsFirst(), None
        elif seen.shape[2] != n_heads and (name[-1] in "qz" or n_heads % seen.shape[2]):
            point.hook_conversion = HeadsInARow(n_heads)
        if name[-1] == "z":
            width = seen.flatten(2).shape[-1] // n_heads
    return int(width)
