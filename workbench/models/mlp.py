"""The MLPs of a decoder. A new one is one entry in `MLPS`, and its name in the type of `DecoderConfig.activation`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn


class MLP(nn.Module):
    """Two linear maps with a nonlinearity between them.

    Args:
        d_model: width of the residual.
        d_mlp: width between the two maps.
        activation: makes the nonlinearity.
    """

    def __init__(self, d_model: int, d_mlp: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.fc_in = nn.Linear(d_model, d_mlp)
        self.fc_out = nn.Linear(d_mlp, d_model)
        self.activation = activation()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.fc_out(self.activation(self.fc_in(x)))


class GatedMLP(MLP):
    """fc_out(activation(gate(x)) * fc_in(x)): with SiLU, SwiGLU (Shazeer 2020, arXiv 2002.05202, Eq. 6).

    Unlike there, every map has a bias, as everywhere in the decoder; with biases of 0 it is the same. Names are
    TransformerLens's: its `hook_pre` is what `gate` gives, its `hook_pre_linear` what `fc_in` gives. Llama calls the
    three `up_proj` (fc_in), `gate_proj` and `down_proj` (fc_out).
    """

    def __init__(self, d_model: int, d_mlp: int, activation: Callable[[], nn.Module]) -> None:
        super().__init__(d_model, d_mlp, activation)
        self.gate = nn.Linear(d_model, d_mlp)

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.fc_out(self.activation(self.gate(x)) * self.fc_in(x))


@dataclass(frozen=True)
class MLPKind:
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
        return (GatedMLP if self.gated else MLP)(d_model, d_mlp, self.activation)

    def learned(self, d_model: int, d_mlp: int) -> int:
        """How many numbers an MLP of these widths learns."""
        return (1 + self.gated) * (d_model + 1) * d_mlp + (d_mlp + 1) * d_model


MLPS: dict[str, MLPKind] = {
    "gelu": MLPKind(nn.GELU, "gelu"),
    "gelu_tanh": MLPKind(partial(nn.GELU, approximate="tanh"), "gelu_new"),
    "relu": MLPKind(nn.ReLU, "relu"),
    "swiglu": MLPKind(nn.SiLU, "silu", gated=True),
}
