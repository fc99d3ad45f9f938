"""A decoder as a TransformerLens bridge, on the explicit path: every TransformerLens tool works on every variant."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge.architecture_adapter import ArchitectureAdapter
from transformer_lens.model_bridge.generalized_components import (
    AttentionBridge,
    BlockBridge,
    EmbeddingBridge,
    LinearBridge,
    MLPBridge,
    NormalizationBridge,
    PosEmbedBridge,
    UnembeddingBridge,
)
from transformer_lens.model_bridge.generalized_components.base import GeneralizedComponent
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

from workbench.models.attention import Attention
from workbench.models.decoder import Decoder, Layer, MultiHeadAttention

ARCHITECTURE = "WorkbenchDecoder"


def hook(model: Decoder) -> HookedDecoder:
    """Hook a copy of a decoder; the model itself stays as it is and can go on training.

    The copy computes scores, pattern and reading one after the other, so that an edit of `hook_attn_scores` or
    `hook_pattern` changes what is read (for ChaCAL, what is solved). Its logits are the main head's.
    """
    config = model.config
    bridge_config = TransformerBridgeConfig.from_dict(
        {
            "architecture": ARCHITECTURE,
            "model_name": ARCHITECTURE,
            "d_model": config.d_model,
            "n_heads": config.n_heads,
            "d_head": config.d_head,
            "d_mlp": config.d_mlp,
            "n_layers": config.n_layers,
            "n_ctx": config.n_ctx,
            "d_vocab": config.d_vocab,
            "d_vocab_out": config.d_vocab,
            "act_fn": config.activation,
            "normalization_type": "LN" if config.norm == "layernorm" else None,
            "positional_embedding_type": "standard" if config.positions == "learned" else "none",
        }
    )
    bridge = build_bridge_from_module(
        ExplicitDecoder(copy.deepcopy(model)), architecture=ARCHITECTURE, tl_config=bridge_config
    )
    bridge.__class__ = HookedDecoder
    return cast(HookedDecoder, bridge.eval())


class HookedDecoder(TransformerBridge):
    """A `TransformerBridge` whose weight processing never changes what the model computes."""

    def process_weights(  # type: ignore[override]
        self, *, fold_value_biases: bool = True, **kwargs: Any
    ) -> None:
        """As in TransformerLens, but value biases are folded only where every layer passes constants through.

        ChaCAL's mixing rows sum to less than 1, so a value bias does not come out as it went in: folding it into the
        output bias would change the model. There the biases stay where they are, whatever is asked for.
        """
        variants = [module for module in self.original_model.modules() if isinstance(module, Attention)]
        exact = all(variant.passes_constants for variant in variants)
        super().process_weights(fold_value_biases=fold_value_biases and exact, **kwargs)


class ExplicitAttention(nn.Module):
    """`MultiHeadAttention` one step at a time, with a say at the scores and at the pattern."""

    accepts_pattern_fn = True

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.n_heads = attention.n_heads
        self.q, self.k, self.v, self.o = attention.q, attention.k, attention.v, attention.o
        self.variant = attention.variant

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        pattern_fn: Callable[[Tensor], Tensor],
        scores_fn: Callable[[Tensor], Tensor],
        **_: Any,
    ) -> tuple[Tensor, Tensor]:
        q, k, v = (
            rearrange(linear(x), "batch pos (head d_head) -> batch head pos d_head", head=self.n_heads)
            for linear in (self.q, self.k, self.v)
        )
        pattern = pattern_fn(scores_fn(self.variant.scores(q, k)).softmax(dim=-1))
        z = self.variant.read(pattern, v)
        return self.o(rearrange(z, "batch head pos d_head -> batch pos (head d_head)")), pattern


class ExplicitLayer(nn.Module):
    """`Layer` with explicit attention, as TransformerLens expects a block: one tensor in, one out."""

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.ln1, self.ln2, self.mlp = layer.ln1, layer.ln2, layer.mlp
        self.attn = ExplicitAttention(layer.attn)

    def forward(self, x: Float[Tensor, "batch pos d_model"], **_: Any) -> Float[Tensor, "batch pos d_model"]:
        x = x + self.attn(self.ln1(x))[0]
        return x + self.mlp(self.ln2(x))


class ExplicitDecoder(nn.Module):
    """`Decoder` with explicit layers, taking the decoder's own modules."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.token_embedding, self.position_embedding = model.token_embedding, model.position_embedding
        self.layers = nn.ModuleList(ExplicitLayer(layer) for layer in model.layers)  # type: ignore[arg-type]
        self.final_norm, self.unembedding = model.final_norm, model.unembedding
        self.check = model._check

    def forward(self, input_ids: Int[Tensor, "batch pos"], **_: Any) -> Float[Tensor, "batch pos d_vocab"]:
        self.check(input_ids)
        x = self.token_embedding(input_ids)
        if self.position_embedding is not None:
            x = x + self.position_embedding(torch.arange(input_ids.shape[1], device=input_ids.device).unsqueeze(0))
        for layer in self.layers:
            x = layer(x)
            x = x[0] if isinstance(x, tuple) else x  # a hooked block answers as Hugging Face's blocks do
        return self.unembedding(self.final_norm(x))


class ExplicitAttentionBridge(AttentionBridge):
    """Fires `hook_attn_scores` with the scores before the softmax; the generic bridge fires it with the pattern."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return super().forward(*args, scores_fn=self.hook_attn_scores, **kwargs)

    def _fire_post_hoc_hook(self, hook: Any, value: Any, name: str) -> Any:
        return value if name == "hook_attn_scores" else super()._fire_post_hoc_hook(hook, value, name)


class Adapter(ArchitectureAdapter):
    """Where TransformerLens finds the parts of an `ExplicitDecoder`."""

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.supports_fold_ln = True
        self.supports_center_writing_weights = True
        self.weight_processing_conversions = {**self._qkvo_weight_conversions(include_biases=True)}

        def norm(name: str) -> GeneralizedComponent:
            kind = GeneralizedComponent if cfg.normalization_type is None else NormalizationBridge
            return kind(name=name, config=cfg)

        linears: dict[str, GeneralizedComponent] = {name: LinearBridge(name=name) for name in "qkvo"}
        mlp: dict[str, GeneralizedComponent] = {"in": LinearBridge(name="fc_in"), "out": LinearBridge(name="fc_out")}
        blocks: dict[str, GeneralizedComponent] = {
            "ln1": norm("ln1"),
            "attn": ExplicitAttentionBridge(name="attn", config=cfg, submodules=linears),
            "ln2": norm("ln2"),
            "mlp": MLPBridge(name="mlp", submodules=mlp),
        }
        mapping: dict[str, Any] = {"embed": EmbeddingBridge(name="token_embedding")}
        if cfg.positional_embedding_type == "standard":
            mapping["pos_embed"] = PosEmbedBridge(name="position_embedding")
        mapping["blocks"] = BlockBridge(name="layers", config=cfg, submodules=blocks)
        mapping["ln_final"] = norm("final_norm")
        mapping["unembed"] = UnembeddingBridge(name="unembedding")
        self.component_mapping = mapping


ArchitectureAdapterFactory.register_adapter(ARCHITECTURE, Adapter)
