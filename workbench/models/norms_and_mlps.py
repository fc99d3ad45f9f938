"""What a layer is made of beside attention: norms and MLPs. A new one is one entry in a dict here.

Its name then belongs in the type of `DecoderConfig.norm` or `.activation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn


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
