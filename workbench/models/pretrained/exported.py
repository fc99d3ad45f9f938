"""Our models as models of Transformers: what the small modelling file in an exported folder builds on.

`workbench.sharing.hugging_face` writes such folders; `AutoModelForCausalLM.from_pretrained(folder,
trust_remote_code=True)` loads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import GenerationMixin, PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from workbench.models.config import DecoderConfig
from workbench.models.decoder import Decoder
from workbench.models.positions import SinusoidalPositions
from workbench.models.pretrained.attention_functions import FIELD, set_attention


class WorkbenchConfig(PreTrainedConfig):
    """The shape of a `Decoder` as a config of Transformers: `shape` has the fields of `DecoderConfig`."""

    model_type = "workbench"

    def __init__(self, shape: Mapping[str, Any] | DecoderConfig | None = None, **more: Any) -> None:
        if shape is not None:  # Transformers makes an empty one to compare with
            shape = shape if isinstance(shape, DecoderConfig) else DecoderConfig(**shape)
            self.shape = asdict(shape)
            self.vocab_size, self.hidden_size = shape.d_vocab, shape.d_model
            self.num_hidden_layers, self.num_attention_heads = shape.n_layers, shape.n_heads
            self.max_position_embeddings = shape.n_ctx
            more = {**more, "tie_word_embeddings": shape.tied, "use_cache": False}
        super().__init__(**more)


class WorkbenchForCausalLM(PreTrainedModel, GenerationMixin):
    """A `Decoder` as a causal language model of Transformers; its logits are those of the main head.

    It keeps no cache: every further token costs the whole sequence, unlike `Decoder.generate`. Padding goes on the
    right, where no token sees it.
    """

    config_class = WorkbenchConfig
    _tied_weights_keys = {"decoder.unembedding.weight": "decoder.token_embedding.weight"}  # noqa: RUF012

    def __init__(self, config: WorkbenchConfig) -> None:
        super().__init__(config)
        self.decoder = Decoder(DecoderConfig(**config.shape))
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Give what is in no file of weights its values; all else the decoder has drawn, or is read from a file."""
        if isinstance(module, SinusoidalPositions):
            module.size.fill_(self.decoder.config.initial_std.embedding)

    def get_input_embeddings(self) -> nn.Module:
        return self.decoder.token_embedding

    def get_output_embeddings(self) -> nn.Module:
        return self.decoder.unembedding

    def forward(
        self,
        input_ids: Int[Tensor, "batch pos"],
        attention_mask: Int[Tensor, "batch pos"] | None = None,
        labels: Int[Tensor, "batch pos"] | None = None,
        **_: Any,
    ) -> CausalLMOutput:
        """Logits, and with `labels` (the tokens themselves, −100 where nothing counts) the loss of the next token.

        Raises:
            ValueError: if there is padding before or between tokens.
        """
        if attention_mask is not None and bool((attention_mask.diff(dim=-1) > 0).any()):
            raise ValueError("this model takes padding on the right alone (padding_side='right')")
        logits: Float[Tensor, "batch pos class"] = self.decoder(input_ids)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(self, input_ids: Tensor, *_: Any, **given: Any) -> dict[str, Any]:
        mask = given.get("attention_mask")
        if mask is not None and not bool(torch.as_tensor(mask).all()):
            raise ValueError("this model goes on from prompts of one length, without padding")
        return {"input_ids": input_ids}


class SavedAttention(PreTrainedModel):
    """To put before a model class of Transformers: its layers have the attention that the config was saved with."""

    def __init__(self, config: Any, *given: Any, **named: Any) -> None:
        super().__init__(config, *given, **named)
        set_attention(self, getattr(config.get_text_config(decoder=True), FIELD))
