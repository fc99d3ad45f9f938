"""Standard causal softmax attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.models.attention.base import Attention


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention through PyTorch's fused kernels; fewer queries than keys are the last positions' queries."""
    n_query, n_key = q.shape[-2], k.shape[-2]
    if n_query == n_key:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    # PyTorch's own causal mask would take them for the first positions'
    past = torch.ones(n_query, n_key, dtype=torch.bool, device=q.device).tril(n_key - n_query)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=past)


class StandardAttention(Attention):
    """softmax(q kᵀ / sqrt(d_head)) v, through PyTorch's fused kernels on the fast path."""

    name = "standard"

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return fused(q, k, v)

    def extend(self, pattern: Tensor, v: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        values = v if memory is None else torch.cat([memory, v], dim=-2)
        return pattern @ values, values
