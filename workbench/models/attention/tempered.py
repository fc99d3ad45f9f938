"""Tempered softmax: scores sharpened with the logarithm of the length (Task hinting and tempered softmax, §4)."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import torch
from jaxtyping import Float, Int
from pydantic import Field, field_validator
from torch import Tensor, nn

from workbench.models.attention import base
from workbench.models.attention.chacal import ChacalAttention
from workbench.models.attention.standard import StandardAttention, fused

Length = Literal["position"] | int


def temper(
    q: Float[Tensor, "batch head query d_head"],
    positions: Int[Tensor, "*batch query"],
    beta: float | Tensor,
    n: Length,
) -> Float[Tensor, "batch head query d_head"]:
    """Queries times τ = β ln n, from their 0-based positions. τ is computed in float32 or better."""
    if n == "position":
        dtype = torch.promote_types(q.dtype, torch.float32)
        return (q * (beta * (positions + 1).to(dtype).log()).unsqueeze(-1)).to(q.dtype)
    return q * (beta * math.log(n))


class Tempered(base.Attention):
    """What any variant becomes when its scores are multiplied by τ = β ln n, with β learnable, one per layer.

    What n is decides the model: each query's own 1-based position (the default; causal), or a given input length.
    """

    class Settings(base.Settings):
        """Settings of tempering."""

        beta: float | None = Field(
            None, description="initial β; by default 1/ln(n_ctx/2), so that τ starts at 1 for the median position"
        )
        n: Literal["position"] | int = Field("position", description='"position" (1-based, causal) or a length ≥ 1')

        @field_validator("n", mode="before")
        @classmethod
        def _is_a_length(cls, n: Any) -> Any:
            check_length(n)
            return n

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.n: Length = self.settings.n
        self.beta = nn.Parameter(torch.tensor(1.0 if self.settings.beta is None else self.settings.beta))

    @classmethod
    def for_context(cls, n_ctx: int, **settings: Any) -> Self:
        if settings.get("beta") is None:
            settings["beta"] = 1 / math.log(max(n_ctx / 2, 2.0))
        return cls(**settings)

    def scale_queries(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        return temper(q, base.query_positions(q, k, at), self.beta, self.n)


class TemperedAttention(Tempered, StandardAttention):
    """Standard attention over tempered scores."""

    name = "tempered"


class TemperedChacalAttention(Tempered, ChacalAttention):
    """ChaCAL over tempered scores: every path length in one layer, of a pattern as sharp as the length asks for."""

    name = "tempered_chacal"

    class Settings(Tempered.Settings, ChacalAttention.Settings):
        """Settings of tempering and of ChaCAL."""


def check_length(n: Length) -> None:
    """Raise ValueError unless n is "position" or an integer ≥ 1."""
    if n != "position" and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ValueError(f'tempered attention takes n="position" or a length of at least 1, not {n!r}')


def tempered_attention(
    q: Float[Tensor, "batch head pos d_head"],
    k: Float[Tensor, "batch head pos d_head"],
    v: Float[Tensor, "batch head pos d_head"],
    *,
    beta: float | Tensor,
    n: Length = "position",
) -> Float[Tensor, "batch head pos d_head"]:
    """Causal tempered attention: softmax(β ln n · q kᵀ / sqrt(d_head)) v.

    Args:
        q, k, v: queries, keys and values; if there are fewer queries than keys, they are those of the last positions.
        beta: β, a number or a tensor that may need a gradient.
        n: `"position"` (each query's 1-based position) or one length for all queries.

    Raises:
        ValueError: if n is neither, or the shapes do not fit one another.
    """
    check_length(n)
    base.check_shapes(q, k, v)
    return fused(temper(q, base.query_positions(q, k), beta, n), k, v)
