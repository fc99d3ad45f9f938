"""The four maps of every attention head, and what they make together: the QK and the OV circuit (Elhage et al., 2021).

Of "A Mathematical Framework for Transformer Circuits": a head's scores are x W_Q W_Kᵀ xᵀ, and what it writes for what
it reads is x W_V W_O, whatever the variant makes of the scores. Biases and norms are left out, as there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Subject
from workbench.models import Decoder
from workbench.models.layers import Layer


@dataclass(frozen=True)
class HeadWeights:
    """The maps of all heads, in float64; heads that share keys and values each have their group's.

    Attributes:
        q, k, v: `[layer, head, d_model, d_head]`, from the residual.
        o: `[layer, head, d_head, d_model]`, to it.
    """

    q: Float[Tensor, "layer head d_model d_head"]
    k: Float[Tensor, "layer head d_model d_head"]
    v: Float[Tensor, "layer head d_model d_head"]
    o: Float[Tensor, "layer head d_head d_model"]

    @staticmethod
    @torch.no_grad()
    def of(subject: Subject) -> HeadWeights:
        """The maps of a decoder's heads.

        Raises:
            ValueError: if the model is not one of this package's decoders.
        """
        if reason := why_no_weights(subject):
            raise ValueError(reason)
        every: dict[str, list[Tensor]] = {"q": [], "k": [], "v": [], "o": []}
        for layer in cast(Iterable[Layer], cast(Decoder, subject.model).layers):
            attn = layer.attn
            for name in ("q", "k", "v"):
                own = getattr(attn, name).weight.double().unflatten(0, (-1, attn.d_head)).mT
                every[name].append(own if name == "q" else own.repeat_interleave(attn.group, dim=0))
            every["o"].append(attn.o.weight.double().T.unflatten(0, (-1, attn.d_head)))
        return HeadWeights(**{name: torch.stack(layers) for name, layers in every.items()})

    def circuit(self, kind: str) -> tuple[Tensor, Tensor]:
        """The two factors of a circuit, `[layer, head, d_model, d_head]` and `[layer, head, d_head, d_model]`.

        `QK`, W_Q and W_Kᵀ: from the query's residual to the key's. `OV`, W_V and W_O: from what is read to what is
        written.

        Raises:
            ValueError: if it is neither.
        """
        if kind not in CIRCUITS:
            raise ValueError(f"a head has the circuits {' and '.join(CIRCUITS)}, not {kind!r}")
        return (self.q, self.k.mT) if kind == "QK" else (self.v, self.o)

    def of_head(self, layer: int, head: int, kind: str) -> tuple[Tensor, Tensor]:
        """The two factors of one head's circuit, `[d_model, d_head]` and `[d_head, d_model]`.

        Those of `QK` make the score as it enters the softmax of standard attention: W_Q is over √d_head.

        Raises:
            ValueError: if there is no such head or circuit.
        """
        n_layers, n_heads = self.q.shape[:2]
        if not (0 <= layer < n_layers and 0 <= head < n_heads):
            raise ValueError(
                f"there is no layer {layer}, head {head}: layers are 0 to {n_layers - 1}, heads 0 to {n_heads - 1}"
            )
        into, out = self.circuit(kind)
        return into[layer, head] / (out.shape[-2] ** 0.5 if kind == "QK" else 1), out[layer, head]


CIRCUITS = ("QK", "OV")


def why_no_weights(subject: Subject) -> str | None:
    """Why a model's heads have no maps that can be read here, in one line; None if they have."""
    if isinstance(subject.model, Decoder):
        return None
    return f"{subject.name} is not one of this package's decoders, whose maps are known by name"
