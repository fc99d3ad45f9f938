"""Standard causal softmax attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.models.attention.base import Attention, query_positions, remember


def fused(q: Tensor, k: Tensor, v: Tensor, at: Tensor | None = None) -> Tensor:
    """Causal attention through PyTorch's fused kernels; fewer queries than keys are the last positions', or `at`'s."""
    n_query, n_key = q.shape[-2], k.shape[-2]
    if at is None and n_query in (1, n_key):
        return F.scaled_dot_product_attention(q, k, v, is_causal=n_query > 1)
    # PyTorch's own causal mask would take them for the first positions'
    past = torch.arange(n_key, device=q.device) <= query_positions(q, k, at).unsqueeze(-1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=past)


class StandardAttention(Attention):
    """softmax(q kᵀ / sqrt(d_head)) v, through PyTorch's fused kernels on the fast path."""

    name = "standard"
    passes_constants = True

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return fused(self.scale_queries(q, k), k, v)

    def extend(self, q: Tensor, k: Tensor, v: Tensor, memory: Tensor, at: Tensor | None = None) -> Tensor:
        remember(memory, v, at)
        return fused(self.scale_queries(q, k, at), k, memory, at)
