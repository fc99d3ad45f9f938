"""Tempered softmax: scores sharpened with the logarithm of the length (the task-hinting paper, §5)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from jaxtyping import Float, Int
from pydantic import Field, ValidationError, field_validator, model_validator
from torch import Tensor, nn

from workbench.models.attention import base
from workbench.models.attention.chacal import ChacalAttention
from workbench.models.attention.standard import StandardAttention, fused

if TYPE_CHECKING:
    from workbench.tasks import Task

DIGITS = 4  # of an initial β that a run's config states


def input_lengths(tokens: Int[Tensor, "batch pos"], delimiters: Sequence[int]) -> Int[Tensor, "batch pos"]:
    """How many tokens up to each position stand before the first delimiter; 1 where none does.

    That is the length of the input from the delimiter on, and before it, where a causal model cannot know the input's
    end, the 1-based position. What follows the delimiter, the answer and padding, is never counted.
    """
    ended = torch.stack([tokens == token for token in delimiters]).any(0).cumsum(-1) > 0
    return (~ended).cumsum(-1).clamp(min=1)


def temper(
    q: Float[Tensor, "batch head query d_head"], beta: float | Tensor, n: int | Int[Tensor, "*batch query"]
) -> Float[Tensor, "batch head query d_head"]:
    """Queries times τ = β ln n. Where n differs between queries, τ is computed in float32 or better."""
    if isinstance(n, int):
        return q * (beta * math.log(n))
    dtype = torch.promote_types(q.dtype, torch.float32)
    return (q * (beta * n.to(dtype).log()).unsqueeze(-1)).to(q.dtype)


class Tempered(base.Attention):
    """What any variant becomes when its scores are multiplied by τ = β ln n, with β learnable, one per layer.

    The paper's n is the length of the input, which a causal model knows only once the input has ended. What n is
    decides the model: each query's own 1-based position (the default), the length of the input that the query belongs
    to (`input_lengths`), or one given number. It is never a padded width.

    The first β, which the paper does not state, makes τ = 1 at the median training sequence. It is found when a run is
    made and stands in its config; a config that says null, as those of earlier versions do, and a decoder made by hand
    start from 1/ln(n_ctx/2).
    """

    class Settings(base.Settings):
        """Settings of tempering."""

        beta: float | None = Field(
            None, description="initial β; by default τ starts at 1 for the median training sequence (null: for n_ctx/2)"
        )
        n: Literal["position", "input"] | int = Field(
            "position", description='"position" (1-based), "input" (its length, up to the delimiter) or a length ≥ 1'
        )
        delimiters: tuple[int, ...] = Field(
            (), description='ids of the tokens that end an input, for n="input"; by default the task\'s'
        )

        @field_validator("n", mode="before")
        @classmethod
        def _is_a_length(cls, n: Any) -> Any:
            check_length(n, "input")
            return n

        @model_validator(mode="after")
        def _input_has_an_end(self) -> Self:
            if self.n == "input" and not self.delimiters:
                raise ValueError('n="input" needs delimiters, the ids of the tokens of which the first ends the input')
            return self

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.n = self.settings.n
        self.beta = nn.Parameter(torch.tensor(1.0 if self.settings.beta is None else self.settings.beta))

    @classmethod
    def fit_to_task(cls, settings: Mapping[str, Any], task: Task) -> dict[str, Any]:
        settings = dict(settings)
        if settings.get("n") == "input" and "delimiters" not in settings:
            if not task.delimiters:
                raise ValueError(
                    f'tempered attention with n="input" needs a token that ends the input, and {task.name} has none; '
                    'give n="position" or a length'
                )
            settings["delimiters"] = task.delimiters
        if "beta" not in settings:
            try:
                made = cls.Settings(**settings)
            except ValidationError:  # refused when the model's config is made
                return settings
            if isinstance(made.n, int):
                n = made.n
            elif made.n == "input":
                n = task.median_training_length(lambda tokens: input_lengths(tokens, made.delimiters)[:, -1])
            else:
                n = task.median_training_length()
            settings["beta"] = round(1 / math.log(max(n, 2)), DIGITS)  # τ is 1 for the median sequence
        return settings

    @classmethod
    def for_model(cls, n_ctx: int, n_heads: int | None = None, **settings: Any) -> Self:
        if settings.get("beta") is None:
            settings["beta"] = 1 / math.log(max(n_ctx / 2, 2.0))
        return cls(**settings)

    def input_lengths(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"] | None:
        return input_lengths(tokens, self.settings.delimiters) if self.n == "input" else None

    def scale_by_input(self, q: Tensor, lengths: Int[Tensor, "batch query"] | None) -> Tensor:
        return q if lengths is None else temper(q, 1.0, lengths.unsqueeze(1))

    def scale_queries(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        if self.n == "input":
            return q * self.beta  # the queries come times ln n
        return temper(q, self.beta, self.n if isinstance(self.n, int) else base.query_positions(q, k, at) + 1)


class TemperedAttention(Tempered, StandardAttention):
    """Standard attention over tempered scores."""

    name = "tempered"


class TemperedChacalAttention(Tempered, ChacalAttention):
    """ChaCAL over tempered scores: every path length in one layer, of a pattern as sharp as the length asks for."""

    name = "tempered_chacal"

    class Settings(Tempered.Settings, ChacalAttention.Settings):
        """Settings of tempering and of ChaCAL."""


def check_length(n: Any, *words: str) -> None:
    """Raise ValueError unless n is "position", one of `words`, or an integer ≥ 1."""
    words = ("position", *words)
    is_length = isinstance(n, int) and not isinstance(n, bool) and n >= 1
    if not is_length and not (isinstance(n, str) and n in words):
        known = ", ".join(f'n="{word}"' for word in words)
        raise ValueError(f"tempered attention takes {known} or a length of at least 1, not {n!r}")


def tempered_attention(
    q: Float[Tensor, "batch head pos d_head"],
    k: Float[Tensor, "batch head pos d_head"],
    v: Float[Tensor, "batch head pos d_head"],
    *,
    beta: float | Tensor,
    n: Literal["position"] | int | Int[Tensor, "batch query"] = "position",
) -> Float[Tensor, "batch head pos d_head"]:
    """Causal tempered attention: softmax(β ln n · q kᵀ / sqrt(d_head)) v.

    Args:
        q, k, v: queries, keys and values; if there are fewer queries than keys, they are those of the last positions.
        beta: β, a number or a tensor that may need a gradient.
        n: `"position"` (each query's 1-based position), one length for all queries, or each query's own length, as
            `input_lengths` has them.

    Raises:
        ValueError: if n is none of these, or the shapes do not fit one another.
    """
    base.check_shapes(q, k, v)
    if isinstance(n, Tensor):
        if n.shape != (q.shape[0], q.shape[-2]):
            raise ValueError(f"n has a length for each of {q.shape[0]} × {q.shape[-2]} queries, not {list(n.shape)}")
        return fused(temper(q, beta, n.unsqueeze(1)), k, v)
    check_length(n)
    return fused(temper(q, beta, n if isinstance(n, int) else base.query_positions(q, k) + 1), k, v)
