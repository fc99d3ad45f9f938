"""The attention of a hooked decoder, one step at a time, each step through its hook point."""

from __future__ import annotations

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint
from transformer_lens.model_bridge.generalized_components import AttentionBridge

from workbench.models.attention import Attention
from workbench.models.layers import MultiHeadAttention


class ExplicitAttentionBridge(AttentionBridge):
    """`MultiHeadAttention` one step at a time, each step through its hook point.

    The generic bridge cannot do this: it sees the pattern only after the values were read, and gives it out as the
    scores too.
    """

    supports_attn_result = True
    config: Any  # never None here

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.config.n_key_value_heads is not None:  # each head's own copy, beside what the heads of a group share
            self.hook_k_of_head, self.hook_v_of_head = HookPoint(), HookPoint()

    @property
    def variant(self) -> Attention:
        return cast(MultiHeadAttention, self.original_component).variant

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], input_lengths: Int[Tensor, "batch pos"] | None = None
    ) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = self._queries_keys_values(self.hook_in(x))
        attention = cast(MultiHeadAttention, self.original_component)
        if attention.rotary is not None:
            at = torch.arange(x.shape[1], device=x.device)
            q, k = self.hook_rot_q(attention.rotary(q, at)), self.hook_rot_k(attention.rotary(k, at))
        if attention.group > 1:
            k, v = attention.of_each_head(k).transpose(1, 2), attention.of_each_head(v).transpose(1, 2)
            k, v = self.hook_k_of_head(k).transpose(1, 2), self.hook_v_of_head(v).transpose(1, 2)
        pattern = self.hook_pattern(self.own_pattern(self.variant.scale_by_input(q, input_lengths), k))
        z = self.variant.read(pattern, v).transpose(1, 2).flatten(2)
        if not self.config.use_attn_result:
            return self.hook_out(self.o(z))
        z = self.o.hook_in(z).unflatten(-1, (self.config.n_heads, self.config.d_head))
        return self.hook_out(self._compute_per_head_result(z, self.config.n_heads, self.config.d_head))

    def own_pattern(self, q: Tensor, k: Tensor) -> Float[Tensor, "batch head query key"]:
        """The variant's own pattern, its scores passed through their hook point on the way.

        Of a variant whose pattern comes from elsewhere there are no scores to see: the hook point gets NaN.

        Raises:
            ValueError: if such scores are edited, which would change nothing.
        """
        variant, scored = self.variant, False

        def hooked_scores(*given: Any, **named: Any) -> Tensor:
            nonlocal scored
            scored = True
            return self.hook_attn_scores(type(variant).scores(variant, *given, **named))

        variant.scores = hooked_scores  # type: ignore[method-assign]
        try:
            pattern = variant.pattern(q, k)
        finally:
            del variant.scores
        if not scored:
            nothing = torch.full_like(pattern, torch.nan)
            place, version = nothing.data_ptr(), nothing._version
            if self.hook_attn_scores(nothing).data_ptr() != place or nothing._version != version:
                raise ValueError(
                    f"hook_attn_scores of the attention variant {variant.name!r} cannot be edited: its pattern does "
                    "not come from Attention.scores; edit hook_pattern"
                )
        return pattern

    def _queries_keys_values(self, x: Tensor) -> list[Float[Tensor, "batch head pos d_head"]]:
        """Projections of the normed residual; or, by TransformerLens's flags, of a copy for each head, to be edited."""
        d_head, kv_heads = self.config.d_head, self.config.n_key_value_heads or self.config.n_heads
        linears, n_heads = (self.q, self.k, self.v), (self.config.n_heads, kv_heads, kv_heads)
        if not (self.config.use_split_qkv_input or self.config.use_attn_in):
            return [linear(x).unflatten(-1, (-1, d_head)).transpose(1, 2) for linear in linears]
        residual = x if self._captured_pre_ln_residual is None else self._captured_pre_ln_residual
        if self.config.use_split_qkv_input:
            hooks = (self.hook_q_input, self.hook_k_input, self.hook_v_input)
            copies = [self._fork_and_norm_per_head(residual, *of) for of in zip(hooks, n_heads, strict=True)]
        else:
            copies = [self._fork_and_norm_per_head(residual, self.hook_attn_in, self.config.n_heads)] * 3
        return [
            self._project_per_head_qkv(linear, own, n, d_head).transpose(1, 2)
            for linear, own, n in zip(linears, copies, n_heads, strict=True)
        ]
