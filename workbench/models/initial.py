"""How large a decoder's weights are before training: the standard deviations of the normals that draw them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from torch import nn

GPT2_STD = 0.02  # of every weight, whatever the width (Radford and others 2019)
FAN_IN: Literal["fan_in"] = "fan_in"
Std = Annotated[float, Field(strict=True, ge=0, le=1e3)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False))
class InitialStd:
    """Standard deviations of a decoder's initial weights, each a number or `fan_in`, which is 1/√(inputs of the map).

    What writes to the residual (`attn.o`, `mlp.fc_out`) begins smaller than the rest by √(2 · n_layers), as in GPT-2,
    so that the residual does not grow with depth. Biases begin at 0, norms at 1.
    """

    embedding: Std = Field(default=GPT2_STD, description="of tokens and positions; of the unembedding too if tied")
    unembedding: Std | Literal["fan_in"] = Field(default=GPT2_STD, description="of the unembedding and extra heads")
    rest: Std | Literal["fan_in"] = Field(default=GPT2_STD, description="of the maps of attention and MLP")

    def of(self, name: str, module: nn.Linear | nn.Embedding, n_layers: int) -> float:
        """The standard deviation of one module's weights, by its name in the decoder."""
        if isinstance(module, nn.Embedding):
            return self.embedding
        of_kind = self.unembedding if name.startswith(("unembedding", "extra_heads")) else self.rest
        std = module.in_features**-0.5 if of_kind == FAN_IN else of_kind
        return std / (2 * n_layers) ** 0.5 if name.endswith(("attn.o", "mlp.fc_out")) else std
