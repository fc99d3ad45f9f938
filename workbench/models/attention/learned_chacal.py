"""ChaCAL whose γ is learned, one for a layer or one for each of its heads: γ = sigmoid(θ)."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import torch
from jaxtyping import Float
from pydantic import Field, field_validator
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from workbench.models.attention.chacal import ChacalAttention
from workbench.models.attention.chacal_blocks import solved_blocks
from workbench.util.vmap import under_vmap


class LearnedChacalAttention(ChacalAttention):
    """Y = (1−γ) A (I − γ A_s)⁻¹ V (Eq. 5) with γ = sigmoid(θ) learned, so that it stays between 0 and 1.

    Its derivative comes out of what the blocks compute anyway, with W the solved values and G = ∂L/∂V:
    ∂L/∂γ = G·A_s W − dY·Y / (1−γ), and A_s W = (W − V) / γ. Rounding of W − V is divided by γ: below about 0.001 the
    derivative is noisy in float32. Under `vmap`, as where seeds train as a stack, the whole pattern is computed.

    Args:
        n_heads: heads of the layer; with 1, the one γ is that of all heads.
        settings: as of `chacal`, and `per`, `gammas`.
    """

    name = "learned_chacal"

    class Settings(ChacalAttention.Settings):
        """Settings of ChaCAL with a learned γ."""

        gamma: float = Field(0.9, gt=0, lt=1, description="initial γ, in (0, 1)")
        form: Literal["eq5"] = Field("eq5", description="eq5: A outside the inverse on the left")
        per: Literal["layer", "head"] = Field("layer", description="what has a γ of its own")
        gammas: tuple[float, ...] | None = Field(None, description="initial γ of each head, in place of `gamma`")

        @field_validator("gammas", mode="after")
        @classmethod
        def _lie_between(cls, gammas: tuple[float, ...] | None) -> tuple[float, ...] | None:
            if gammas is not None and not (gammas and all(0 < gamma < 1 for gamma in gammas)):
                raise ValueError(f"gammas are numbers between 0 and 1, one for each head, not {list(gammas)}")
            return gammas

    def __init__(self, n_heads: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        s = self.settings
        gammas = s.gammas or (s.gamma,) * (n_heads if s.per == "head" else 1)
        self.theta = nn.Parameter(torch.tensor([math.log(gamma / (1 - gamma)) for gamma in gammas]))

    @classmethod
    def for_model(cls, n_ctx: int, n_heads: int | None = None, **settings: Any) -> Self:
        layer = cls(n_heads or 1, **settings)
        gammas = layer.settings.gammas
        if n_heads and gammas is not None and len(gammas) not in (1, n_heads):
            raise ValueError(f"gammas has {len(gammas)} numbers, and the layer {n_heads} heads")
        return layer

    @property
    def gammas(self) -> Float[Tensor, " head"]:
        """γ of each head; a single one where all heads share it."""
        return self.theta.sigmoid()

    @property
    def gamma(self) -> float | None:  # type: ignore[override]
        return float(self.gammas.detach()) if len(self.theta) == 1 else None

    def weight(self, A: Tensor) -> Float[Tensor, "head 1 1"]:
        """γ as it multiplies a pattern; in evaluation mode, as instruments read it, it takes no gradient."""
        return (self.gammas if self.training else self.gammas.detach())[:, None, None].to(A)

    def of_head(self, head: int) -> ChacalAttention:
        """ChaCAL with the γ of this head."""
        gammas = self.gammas.tolist()
        gamma = gammas[head if len(gammas) > 1 else 0]
        return ChacalAttention(gamma=gamma, form="eq5", diagonal=self.settings.diagonal)

    @property
    def how_it_reads(self) -> str:
        shown = ", ".join(f"{gamma:.2g}" for gamma in self.gammas.tolist())
        of_heads = "" if len(self.theta) == 1 else " of its heads"
        paths = "adds up paths of any number of steps through its pattern"
        return f"{paths}, each further step weighing γ = {shown}{of_heads}"

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if under_vmap(self.theta) or under_vmap(q):
            return self._whole(q, k, v)
        q = self.scale_queries(q, k)
        if len(self.theta) == 1:
            return learned_blocks(q, k, v, self.gammas[0], diagonal=self.settings.diagonal)
        heads = zip(*(x.split(1, dim=1) for x in (q, k, v)), self.gammas, strict=True)
        return torch.cat(
            [learned_blocks(*qkv_and_gamma, diagonal=self.settings.diagonal) for qkv_and_gamma in heads], dim=1
        )

    def _whole(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """`read` of `pattern`, without the look at the pattern that `vmap` does not allow."""
        A = self.pattern(q, k).to(torch.promote_types(v.dtype, torch.float32))
        with torch.autocast(v.device.type, enabled=False):
            system = self._system(A)
            W = torch.linalg.solve_triangular(system, v.to(A.dtype), upper=False)
            return ((1 - self.weight(A)) * (A @ W)).to(v.dtype)

    def extend(self, q: Tensor, k: Tensor, v: Tensor, memory: Tensor, at: Tensor | None = None) -> Tensor:
        gammas, read = self.gammas.tolist(), []
        heads = [slice(None)] if len(gammas) == 1 else [slice(i, i + 1) for i in range(len(gammas))]
        q = self.scale_queries(q, k, at)
        for gamma, head in zip(gammas, heads, strict=True):
            fixed = ChacalAttention(gamma=gamma, diagonal=self.settings.diagonal)
            read.append(fixed.extend(q[:, head], k[:, head], v[:, head], memory[:, head], at))
        return torch.cat(read, dim=1)


def learned_blocks(
    q: Float[Tensor, "*batch pos d_head"],
    k: Float[Tensor, "*batch pos d_head"],
    v: Float[Tensor, "*batch pos d_value"],
    gamma: Float[Tensor, ""],
    *,
    diagonal: bool = False,
    block: int | None = None,
) -> Float[Tensor, "*batch pos d_value"]:
    """`chacal_blocks` of Eq. 5 whose γ may need a gradient: exact, and with as little memory.

    Args:
        q, k, v: queries, keys and values.
        gamma: one γ in (0, 1).
        diagonal, block: as of `chacal_blocks`.

    Raises:
        ValueError: if γ is not between 0 and 1.
        RuntimeError: from a second derivative.
    """
    number = float(gamma.detach())
    if not 0 < number < 1:
        raise ValueError(f"a γ that is learned lies between 0 and 1, not {number:g}")
    values, solved = v.to(torch.promote_types(v.dtype, torch.float32)), list[Tensor]()
    values = _Further.apply(values, gamma, solved)
    y, W = solved_blocks(q, k, values, gamma=number, form="eq5", diagonal=diagonal, block=block)
    solved.append(W)
    return _Scale.apply(y, gamma).to(v.dtype)  # type: ignore[no-any-return]


class _Further(torch.autograd.Function):
    """The values as they are; backward adds to γ what further steps give it, G·A_s W."""

    @staticmethod
    def forward(v: Tensor, gamma: Tensor, solved: list[Tensor]) -> Tensor:
        return v.view_as(v)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        v, gamma, ctx.solved = inputs
        ctx.save_for_backward(v, gamma)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor, Tensor, None]:
        v, gamma = ctx.saved_tensors
        further = (G * (ctx.solved[0] - v)).sum(dtype=torch.float64) / gamma
        return G, further.to(gamma), None


class _Scale(torch.autograd.Function):
    """The outputs as they are; backward adds to γ what their factor 1 − γ takes away, −dY·Y / (1−γ)."""

    @staticmethod
    def forward(y: Tensor, gamma: Tensor) -> Tensor:
        return y.view_as(y)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        y, gamma = ctx.saved_tensors
        scale = (dy * y).sum(dtype=torch.float64) / (gamma - 1)
        return dy, scale.to(gamma)
