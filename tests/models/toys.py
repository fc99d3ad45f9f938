"""Attention variants as a user might write them, each with the least it takes; none is in `ATTENTION`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from workbench.models.attention import Attention
from workbench.models.attention.base import query_positions
from workbench.models.attention.standard import StandardAttention


class SigmoidAttention(Attention):
    """sigmoid(scores) v: rows sum to what they like."""

    name = "sigmoid"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        return self.scores(q, k, at).sigmoid()


class SinkAttention(Attention):
    """exp(scores) over one more than their sum: a key that holds nothing takes the rest of each row."""

    name = "sink"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        scores = self.scores(q, k, at)
        return torch.cat([scores, torch.zeros_like(scores[..., :1])], dim=-1).softmax(-1)[..., :-1]


class ReluAttention(Attention):
    """relu(scores), each row over its sum: of one at least, else a nearly empty row is rounding and nothing more."""

    name = "relu"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        positive = (self.scores(q, k, at) + 2).relu()
        return positive / positive.sum(-1, keepdim=True).clamp(min=1)


class DistanceAttention(Attention):
    """exp(−‖q − k‖²), without any scores."""

    name = "distance"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        apart = (q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(-1)
        future = torch.arange(k.shape[-2], device=q.device) > query_positions(q, k, at).unsqueeze(-1)
        return (-0.1 * apart).exp().masked_fill(future, 0)


class SilentTwoStepAttention(Attention):
    """½ (A + A²) v, and not a word about steps."""

    name = "silent_two_step"
    passes_constants = True

    def read(self, pattern: Tensor, v: Tensor) -> Tensor:
        once = pattern @ v
        return (once + pattern @ once) / 2


class TwoStepAttention(SilentTwoStepAttention):
    """The same, with its steps."""

    name = "two_step"

    def read(self, pattern: Tensor, v: Tensor) -> Tensor:
        return super().read(pattern, v)

    def step_terms(self, pattern: Tensor) -> Iterator[Tensor]:
        yield pattern / 2
        yield pattern @ pattern / 2


class HalfSigmoidAttention(StandardAttention):
    """A pattern of its own, and the fast path of another: two models in one."""

    name = "half_sigmoid"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        return self.scores(q, k, at).sigmoid()


TWO_STEPS = (SilentTwoStepAttention, TwoStepAttention)
TOYS = {kind.name: kind for kind in (SigmoidAttention, SinkAttention, ReluAttention, DistanceAttention, *TWO_STEPS)}
