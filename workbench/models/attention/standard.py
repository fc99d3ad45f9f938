"""Standard causal softmax attention."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from workbench.models.attention.base import Attention


class StandardAttention(Attention):
    """softmax(q kᵀ / sqrt(d_head)) v, through PyTorch's fused kernels on the fast path."""

    name = "standard"

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def extend(self, pattern: Tensor, v: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        values = v if memory is None else torch.cat([memory, v], dim=-2)
        return pattern @ values, values
