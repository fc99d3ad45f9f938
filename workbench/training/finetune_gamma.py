"""γ of ChaCAL learned while a Hugging Face model is fine-tuned, one for each layer or head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from workbench.models.attention.learned_chacal import LearnedChacalAttention

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LearnedGammas(nn.Module):
    """The γ of each layer that has ChaCAL, as parameters beside the model's.

    They train with the model and are no part of it: once they are learned, they are settings of its attention.

    Args:
        model: a causal language model of Transformers.
        settings: those of `chacal`; `gamma` is what γ begins with.
        per: what has a γ of its own.
        layers: the layers that have ChaCAL; by default all.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        settings: Mapping[str, Any],
        per: Literal["layer", "head"],
        layers: Iterable[int] | None = None,
    ) -> None:
        super().__init__()
        config = model.config.get_text_config(decoder=True)
        n_ctx, n_heads = int(getattr(config, "max_position_embeddings", None) or 2048), config.num_attention_heads
        given = {name: value for name, value in settings.items() if name != "variant"} | {"per": per}
        chosen = range(config.num_hidden_layers) if layers is None else layers
        self.layers = nn.ModuleDict({str(i): LearnedChacalAttention.for_model(n_ctx, n_heads, **given) for i in chosen})

    def __getitem__(self, layer: int) -> LearnedChacalAttention:
        variant = self.layers[str(layer)]
        assert isinstance(variant, LearnedChacalAttention)
        return variant

    def put_into(self, model: PreTrainedModel) -> None:
        """Let the model's layers read with these γ, whatever its config says."""
        from workbench.models.pretrained.attention_functions import lend

        lend(model, {int(name): self[int(name)] for name in self.layers})

    def settings(self, layer: int) -> dict[str, Any]:
        """What was learned, as settings of a layer's attention."""
        variant = self[layer]
        about = {"diagonal": variant.settings.diagonal}
        if variant.gamma is not None:
            return {"variant": "chacal", "gamma": variant.gamma, **about}
        return {"variant": "learned_chacal", "per": "head", "gammas": variant.gammas.tolist(), **about}

    def figures(self) -> dict[str, Tensor]:
        """The mean γ, and that of each layer, to log."""
        each = {int(name): self[int(name)].gammas.detach().mean().double() for name in self.layers}
        return {
            "gamma": torch.stack([*each.values()]).mean(),
            **{f"gamma/layer={i}": gamma for i, gamma in each.items()},
        }
