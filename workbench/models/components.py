"""What a decoder is made of beside attention: norms, MLPs and positions. A new one is one entry in a dict here.

Its name then belongs in the type of `DecoderConfig.norm`, `.activation` or `.positions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.util.memory import check_memory


@dataclass(frozen=True)
class _Norm:
    """A norm of the residual.

    Attributes:
        make: makes the module for a width.
        learned: how many numbers it learns for each dim of the residual.
        lens_name: TransformerLens's name for it; None for what does nothing.
        centres: whether it takes the mean over the dims out, so that nobody sees what is written to it.
        eps: what is added to the variance, or to the mean square.
    """

    make: Callable[[int], nn.Module]
    learned: int
    lens_name: str | None
    centres: bool
    eps: float


NORMS: dict[str, _Norm] = {
    "layernorm": _Norm(nn.LayerNorm, 2, "LN", True, 1e-5),
    "rmsnorm": _Norm(lambda width: nn.RMSNorm(width, eps=1e-6), 1, "RMS", False, 1e-6),  # as Llama's
    "none": _Norm(lambda width: nn.Identity(), 0, None, False, 0.0),
}


class MLP(nn.Module):
    """Two linear maps with a nonlinearity between them; gated, fc_out(activation(gate(x)) * fc_in(x)).

    Gated with SiLU it is SwiGLU (Shazeer 2020, arXiv 2002.05202, Eq. 6). Unlike there, every map has a bias, as
    everywhere in the decoder; with biases of 0 it is the same. Names are TransformerLens's: its `hook_pre` is what
    `gate` gives, its `hook_pre_linear` what `fc_in` gives. Llama calls the three `up_proj` (fc_in), `gate_proj` and
    `down_proj` (fc_out).

    Args:
        d_model: width of the residual.
        d_mlp: width between the maps.
        activation: makes the nonlinearity.
        gated: whether there is a gate.
    """

    def __init__(self, d_model: int, d_mlp: int, activation: Callable[[], nn.Module], gated: bool) -> None:
        super().__init__()
        self.fc_in = nn.Linear(d_model, d_mlp)
        self.fc_out = nn.Linear(d_mlp, d_model)
        self.activation = activation()
        self.gate = nn.Linear(d_model, d_mlp) if gated else None

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        if self.gate is None:
            return self.fc_out(self.activation(self.fc_in(x)))
        return self.fc_out(self.activation(self.gate(x)) * self.fc_in(x))


@dataclass(frozen=True)
class _MLPKind:
    """A kind of MLP, by its nonlinearity.

    Attributes:
        activation: makes the nonlinearity.
        lens_name: TransformerLens's name for it.
        gated: whether a third map gates what the first gives.
    """

    activation: Callable[[], nn.Module]
    lens_name: str
    gated: bool = False

    def make(self, d_model: int, d_mlp: int) -> MLP:
        return MLP(d_model, d_mlp, self.activation, self.gated)

    def learned(self, d_model: int, d_mlp: int) -> int:
        """How many numbers an MLP of these widths learns."""
        return (1 + self.gated) * (d_model + 1) * d_mlp + (d_mlp + 1) * d_model


MLPS: dict[str, _MLPKind] = {
    "gelu": _MLPKind(nn.GELU, "gelu"),
    "gelu_tanh": _MLPKind(partial(nn.GELU, approximate="tanh"), "gelu_new"),
    "relu": _MLPKind(nn.ReLU, "relu"),
    "swiglu": _MLPKind(nn.SiLU, "silu", gated=True),
}


BASE = 10_000  # of the periods of sinusoidal and of rotary positions, in both papers


class SinusoidalPositions(nn.Module):
    """Position p as sin(p / 10000^(2i/d)) at coordinate 2i and the cosine of the same at 2i + 1, times `size`.

    These positions are fixed, and have no longest one (Vaswani and others 2017, §3.5).

    There, embeddings are multiplied by √d_model before positions are added (§3.4), which makes their entries about 1.
    Here embeddings stay as they are, and positions have their `size`: both weigh as much against each other as there.

    Nothing is learned, and nothing of it is in a file of weights. Rows are computed when they are asked for.

    Args:
        n_ctx: rows of `table`; `forward` takes any position.
        d_model: the width.
        size: the standard deviation of the entries of the embedding at the start.
    """

    size: Tensor

    def __init__(self, n_ctx: int, d_model: int, size: float) -> None:
        super().__init__()
        self.n_ctx, self.d_model = n_ctx, d_model
        self.register_buffer("size", torch.tensor(size), persistent=False)  # moves with the model, to its type too

    def forward(self, positions: Int[Tensor, "*batch pos"]) -> Float[Tensor, "*batch pos d_model"]:
        dtype = torch.promote_types(self.size.dtype, torch.float32)
        coordinate = torch.arange(self.d_model, device=positions.device)
        period = BASE ** ((coordinate - coordinate % 2).to(dtype) / self.d_model)
        angle = positions.unsqueeze(-1).to(dtype) / period
        rows = torch.where(coordinate % 2 == 0, angle.sin(), angle.cos())
        return (rows * self.size).to(self.size.dtype)

    def table(self) -> nn.Embedding:
        """The rows of all positions of the context, in the form of learned ones that do not learn.

        Raises:
            ValueError: if it is larger than this machine's memory.
        """
        check_memory(4 * self.n_ctx * self.d_model, f"a table of {self.n_ctx:,} positions")
        return nn.Embedding.from_pretrained(self(torch.arange(self.n_ctx, device=self.size.device)))

    def extra_repr(self) -> str:
        return f"{self.n_ctx}, {self.d_model}"


class RotaryPositions(nn.Module):
    """Turns pairs of coordinates of queries and keys by angles that grow with the position (RoFormer, §3.2.2).

    Pair i of d_head / 2 is turned by p / 10000^(2i / d_head) at position p, so that a score depends on how far apart
    query and key are (Su and others 2021, arXiv 2104.09864, Eq. 15). Unlike there, a pair is coordinates i and
    i + d_head / 2, as in Llama, not 2i and 2i + 1: the same but for the order of coordinates, which is learned.

    Nothing is learned here. Angles are computed in float32 or better, for any position.

    Args:
        d_head: the width of a head, an even number.
    """

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.d_head = d_head

    def forward(
        self, x: Float[Tensor, "batch head pos d_head"], positions: Int[Tensor, "*batch pos"]
    ) -> Float[Tensor, "batch head pos d_head"]:
        dtype = torch.promote_types(x.dtype, torch.float32)
        pair = torch.arange(0, self.d_head, 2, device=x.device).to(dtype)
        angle = (positions.unsqueeze(-1).to(dtype) / BASE ** (pair / self.d_head)).unsqueeze(-3)  # the same for heads
        first, second = x.to(dtype).chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.d_head}"


@dataclass(frozen=True)
class _Positions:
    """A way to know positions.

    Attributes:
        add: makes the module that maps positions to what is added to embeddings, from n_ctx, d_model and the standard
            deviation that embeddings start with; None if nothing is added.
        turn: makes the module that turns queries and keys, from d_head; None if nothing does.
        learned: whether each position of the context has a vector of d_model numbers that are learned.
        lens_name: TransformerLens's name for it.
    """

    add: Callable[[int, int, float], nn.Embedding | SinusoidalPositions] | None
    turn: Callable[[int], RotaryPositions] | None
    learned: bool
    lens_name: Literal["standard", "rotary", "none"]


POSITIONS: dict[str, _Positions] = {
    "learned": _Positions(lambda n_ctx, d_model, std: nn.Embedding(n_ctx, d_model), None, True, "standard"),
    "sinusoidal": _Positions(SinusoidalPositions, None, False, "standard"),
    "rotary": _Positions(None, RotaryPositions, False, "rotary"),
    "none": _Positions(None, None, False, "none"),
}
