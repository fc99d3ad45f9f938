"""The layers of a decoder, and the cache of what they have read. Layers differ only in their attention variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models.attention import Attention
from workbench.models.attention.base import remember
from workbench.models.config import DecoderConfig
from workbench.models.norms_and_mlps import MLPS, NORMS
from workbench.models.positions import POSITIONS


@dataclass
class Cache:
    """Keys and values of the tokens read so far, so that each further token costs one row of attention.

    Position i of a sequence is always in slot i, so the causal mask alone hides what other sequences have in their
    slots when prompts differ in length.

    Attributes:
        keys: each layer's keys, `[batch, kv_head, slot, d_head]`: with grouped queries, once for each group.
        memory: what each layer's variant reads instead of values, `[batch, head, slot, d_memory]`.
        tokens: what was read, `[batch, slot]`.
        length: tokens read; a tensor `[batch]` where that differs between sequences.
        longest: the largest of them.
    """

    keys: list[Float[Tensor, "batch kv_head slot d_head"]]
    memory: list[Float[Tensor, "batch head slot d_memory"]]
    tokens: Int[Tensor, "batch slot"]
    length: int | Int[Tensor, " batch"] = 0
    longest: int = 0

    @property
    def at(self) -> Int[Tensor, " batch"] | None:
        """The slot of each sequence's next token; None where it is the same for all."""
        return None if isinstance(self.length, int) else self.length

    def positions(self, n_new: int) -> Int[Tensor, "*batch new"]:
        """The next tokens' positions."""
        if isinstance(self.length, int):
            return torch.arange(self.length, self.length + n_new, device=self.keys[0].device)
        return self.length.unsqueeze(-1)


class MultiHeadAttention(nn.Module):
    """The linear maps around an attention variant.

    With fewer heads of keys and values than of queries, consecutive heads share them (grouped queries: Ainslie and
    others 2023, arXiv 2305.13245). The cache keeps the keys once for each group, but what the variant reads of values
    for each head: ChaCAL's solved values depend on the head's pattern.
    """

    def __init__(self, config: DecoderConfig, variant: Attention) -> None:
        super().__init__()
        assert config.d_head is not None and config.n_kv_heads is not None
        width, kv_width = config.n_heads * config.d_head, config.n_kv_heads * config.d_head
        self.d_head, self.group = config.d_head, config.n_heads // config.n_kv_heads
        self.q = nn.Linear(config.d_model, width)
        self.k = nn.Linear(config.d_model, kv_width)
        self.v = nn.Linear(config.d_model, kv_width)
        self.o = nn.Linear(width, config.d_model)
        self.variant = variant
        turn = POSITIONS[config.positions].turn
        self.rotary = None if turn is None else turn(config.d_head)

    def split(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch some_head pos d_head"]:
        return rearrange(x, "batch pos (head d_head) -> batch head pos d_head", d_head=self.d_head)

    def merge(self, z: Float[Tensor, "batch head pos d_head"]) -> Float[Tensor, "batch pos d_model"]:
        return self.o(rearrange(z, "batch head pos d_head -> batch pos (head d_head)"))

    def of_each_head(self, x: Float[Tensor, "batch kv_head pos d_head"]) -> Float[Tensor, "batch head pos d_head"]:
        """Keys or values of groups, for each head its own."""
        return x if self.group == 1 else x.repeat_interleave(self.group, dim=1)

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        input_lengths: Int[Tensor, "batch pos"] | None = None,
        cache: Cache | None = None,
        layer: int = 0,
    ) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if self.rotary is not None:
            at = torch.arange(x.shape[1], device=x.device) if cache is None else cache.positions(x.shape[1])
            q, k = self.rotary(q, at), self.rotary(k, at)
        q = self.variant.scale_by_input(q, input_lengths)
        if cache is None:
            return self.merge(self.variant.mix(q, self.of_each_head(k), self.of_each_head(v)))
        read = slice(cache.longest + x.shape[1])
        keys, memory = cache.keys[layer][:, :, read], cache.memory[layer][:, :, read]
        remember(keys, k, cache.at)
        keys, v = self.of_each_head(keys), self.of_each_head(v)
        return self.merge(self.variant.extend(q, keys, v, memory, cache.at))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): the residual before, between and after is what people inspect.

    With `d_mlp=0` there is no MLP (`mlp` and `ln2` are None), and the residual after it is that before it.
    """

    def __init__(self, config: DecoderConfig, variant: Attention) -> None:
        super().__init__()
        make_norm = NORMS[config.norm].make
        self.ln1 = make_norm(config.d_model)
        self.ln2 = make_norm(config.d_model) if config.d_mlp else None
        self.attn = MultiHeadAttention(config, variant)
        self.mlp = MLPS[config.activation].make(config.d_model, config.d_mlp) if config.d_mlp else None
        self.dropout = nn.Dropout(config.dropout)
        self.middle = nn.Identity()  # where a bridge hooks the residual between attention and MLP

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], input_lengths: Int[Tensor, "batch pos"] | None = None
    ) -> tuple[Float[Tensor, "batch pos d_model"]]:
        """The residual after the layer alone, as a tuple of one: so TransformerLens expects it of a block."""
        return (self.resid_post(self.middle(self.resid_mid(x, input_lengths))),)

    def resid_mid(self, x: Tensor, *lengths_and_cache: Any) -> Tensor:
        return x + self.dropout(self.attn(self.ln1(x), *lengths_and_cache))

    def resid_post(self, mid: Tensor) -> Tensor:
        if self.mlp is None or self.ln2 is None:
            return mid
        return mid + self.dropout(self.mlp(self.ln2(mid)))
