"""A decoder as a TransformerLens bridge, on the explicit path: every TransformerLens tool works on every variant."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
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

    The copy, in eval mode, computes scores, pattern and reading one after the other, so that an edit of
    `hook_attn_scores` or `hook_pattern` changes what is read (for ChaCAL, what is solved). Its logits are the main
    head's. Names and shapes of hook points are TransformerLens's own: `blocks.0.hook_resid_pre` is
    `[batch, pos, d_model]`, `blocks.0.attn.hook_q` `[batch, pos, head, d_head]`, `blocks.0.attn.hook_pattern`
    `[batch, head, query, key]`.
    """
    if not isinstance(model, Decoder):
        raise ValueError(f"hook takes a workbench Decoder, not a {type(model).__name__}")
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
    bridge.__class__ = HookedDecoder  # the builder has no say in the class
    return cast(HookedDecoder, bridge.eval())


class HookedDecoder(TransformerBridge):
    """A `TransformerBridge` whose weight processing never changes what the model computes."""

    @torch.no_grad()
    def process_weights(
        self,
        verbose: bool = False,
        fold_ln: bool = True,
        center_writing_weights: bool = True,
        center_unembed: bool = True,
        fold_value_biases: bool = True,
        refactor_factored_attn_matrices: bool = False,
    ) -> None:
        """What TransformerLens does under these names, for `enable_compatibility_mode`, where it is exact.

        TransformerLens itself guesses from a weight's shape which way it lies, and guesses wrong where d_mlp equals
        d_model; and it folds value biases as if every layer passed constants through, which ChaCAL, whose mixing rows
        sum to less than 1, does not. Here such a layer keeps its value biases. As there, LayerNorm has to be present
        for folding it and for centring what is written. Processing twice does no harm.

        Raises:
            ValueError: if asked to refactor the attention matrices.
        """
        if refactor_factored_attn_matrices:
            raise ValueError(
                "refactor_factored_attn_matrices is not offered for these models: leave it False, "
                "see .QK and .OV for the factored matrices"
            )
        self._weights_processed = True
        unembed = self.unembed.original_component
        if unembed.weight is self.embed.original_component.weight:
            unembed.weight = nn.Parameter(unembed.weight.clone())
        has_norm = self.cfg.normalization_type is not None
        if fold_ln and has_norm:
            for block in self.blocks:
                fold_norm(block.ln1, [block.attn.q, block.attn.k, block.attn.v])
                fold_norm(block.ln2, [getattr(block.mlp, "in")])
            if unembed.bias is None:
                unembed.bias = nn.Parameter(torch.zeros_like(unembed.weight[:, 0]))
            fold_norm(self.ln_final, [unembed])
        if fold_value_biases:  # after LayerNorm's own biases have gone there
            for block in self.blocks:
                if block.attn.variant.passes_constants:
                    block.attn.o.bias += block.attn.o.weight @ block.attn.v.bias
                    block.attn.v.bias.zero_()
        if center_writing_weights and has_norm:
            tables = [self.embed, self.pos_embed] if hasattr(self, "pos_embed") else [self.embed]
            for table in tables:
                table.original_component.weight -= table.original_component.weight.mean(1, keepdim=True)
            for block in self.blocks:
                centre_output(block.attn.o)
                centre_output(block.mlp.out)
        if center_unembed:
            centre_output(unembed)

    def _validate_attention_fork_supported(self, flag_name: str) -> None:
        """Every layer here honours every flag; TransformerLens knows only its own attention classes."""


def fold_norm(norm: Any, linears: Sequence[Any]) -> None:
    """Move a LayerNorm's weight and bias into the linear maps that read it.

    What they read then has mean zero, so the mean of each of their rows reads nothing and is taken out.
    """
    norm = norm.original_component
    for linear in linears:
        linear.bias += linear.weight @ norm.bias
        linear.weight *= norm.weight
        linear.weight -= linear.weight.mean(1, keepdim=True)
    norm.weight.fill_(1)
    norm.bias.zero_()


def centre_output(linear: Any) -> None:
    """Make what a linear map writes sum to zero over its outputs: LayerNorm and softmax do not see the mean."""
    linear.weight -= linear.weight.mean(0, keepdim=True)
    if linear.bias is not None:
        linear.bias -= linear.bias.mean()


class ExplicitLayer(nn.Module):
    """`Layer` as TransformerLens expects a block: the residual comes out alone, as a tuple of one.

    The residual between attention and MLP is a step of its own, so that an edit of `hook_resid_mid` edits the residual;
    where a block has no such step, TransformerLens hooks the MLP's input alone.
    """

    def __init__(self, layer: Layer) -> None:
        super().__init__()
        self.ln1, self.ln2, self.dropout = layer.ln1, layer.ln2, layer.dropout
        self.attn, self.mlp = layer.attn, layer.mlp
        self.resid_mid = nn.Identity()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> tuple[Float[Tensor, "batch pos d_model"]]:
        x = self.resid_mid(x + self.dropout(self.attn(self.ln1(x))))
        return (x + self.dropout(self.mlp(self.ln2(x))),)


class ExplicitDecoder(nn.Module):
    """`Decoder` with such layers and without extra heads, taking the decoder's own modules."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.token_embedding, self.position_embedding = model.token_embedding, model.position_embedding
        self.dropout = model.dropout
        self.layers = nn.ModuleList(ExplicitLayer(cast(Layer, layer)) for layer in model.layers)
        self.final_norm, self.unembedding = model.final_norm, model.unembedding
        self.check = model._check

    def forward(
        self,
        input_ids: Int[Tensor, "batch pos"] | None = None,
        inputs_embeds: Float[Tensor, "batch pos d_model"] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        given = input_ids if inputs_embeds is None else inputs_embeds
        assert given is not None
        if given.is_floating_point() and given.ndim == 3:  # how TransformerLens starts at a later layer
            x = given
        else:
            self.check(given)
            x = self.token_embedding(given)
        if self.position_embedding is not None:
            x = x + self.position_embedding(torch.arange(x.shape[1], device=x.device).unsqueeze(0))
        x = self.dropout(x)
        for layer in self.layers:
            (x,) = layer(x)
        return self.unembedding(self.final_norm(x))


class ExplicitAttentionBridge(AttentionBridge):
    """`MultiHeadAttention` one step at a time, each step through its hook point.

    The generic bridge cannot do this: it sees the pattern only after the values were read, and gives it out as the
    scores too.
    """

    supports_attn_result = True
    config: Any  # never None here

    @property
    def variant(self) -> Attention:
        return cast(MultiHeadAttention, self.original_component).variant

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = self._queries_keys_values(self.hook_in(x))
        pattern = self.hook_pattern(self.hook_attn_scores(self.variant.scores(q, k)).softmax(dim=-1))
        z = self.variant.read(pattern, v).transpose(1, 2).flatten(2)
        if not self.config.use_attn_result:
            return self.hook_out(self.o(z))
        z = self.o.hook_in(z).unflatten(-1, (self.config.n_heads, self.config.d_head))
        return self.hook_out(self._compute_per_head_result(z, self.config.n_heads, self.config.d_head))

    def _queries_keys_values(self, x: Tensor) -> list[Float[Tensor, "batch head pos d_head"]]:
        """From the normed residual; or, if asked to, from copies of the residual, one per head, that can be edited."""
        n_heads, d_head = self.config.n_heads, self.config.d_head
        linears = (self.q, self.k, self.v)
        if not (self.config.use_split_qkv_input or self.config.use_attn_in):
            return [linear(x).unflatten(-1, (n_heads, d_head)).transpose(1, 2) for linear in linears]
        residual = x if self._captured_pre_ln_residual is None else self._captured_pre_ln_residual
        if self.config.use_split_qkv_input:
            hooks = (self.hook_q_input, self.hook_k_input, self.hook_v_input)
            copies = [self._fork_and_norm_per_head(residual, point, n_heads) for point in hooks]
        else:
            copies = [self._fork_and_norm_per_head(residual, self.hook_attn_in, n_heads)] * 3
        return [
            self._project_per_head_qkv(linear, own, n_heads, d_head).transpose(1, 2)
            for linear, own in zip(linears, copies, strict=True)
        ]


class Adapter(ArchitectureAdapter):
    """Where TransformerLens finds the parts of an `ExplicitDecoder`."""

    supports_kv_cache = False
    supports_hf_output_attentions = False

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)

        def norm(name: str) -> GeneralizedComponent:
            kind = GeneralizedComponent if cfg.normalization_type is None else NormalizationBridge
            return kind(name=name, config=cfg)

        linears: dict[str, GeneralizedComponent] = {name: LinearBridge(name=name) for name in "qkvo"}
        mlp: dict[str, GeneralizedComponent] = {"in": LinearBridge(name="fc_in"), "out": LinearBridge(name="fc_out")}
        blocks: dict[str, GeneralizedComponent] = {
            "ln1": norm("ln1"),
            "attn": ExplicitAttentionBridge(name="attn", config=cfg, submodules=linears),
            "resid_mid": GeneralizedComponent(name="resid_mid", config=cfg),
            "ln2": norm("ln2"),
            "mlp": MLPBridge(name="mlp", submodules=mlp),
        }
        mapping: dict[str, Any] = {"embed": EmbeddingBridge(name="token_embedding")}
        if cfg.positional_embedding_type == "standard":
            mapping["pos_embed"] = PosEmbedBridge(name="position_embedding")
        middle = {"hook_resid_mid": "resid_mid.hook_out"}
        mapping["blocks"] = BlockBridge(name="layers", config=cfg, submodules=blocks, hook_alias_overrides=middle)
        mapping["ln_final"] = norm("final_norm")
        mapping["unembed"] = UnembeddingBridge(name="unembedding")
        self.component_mapping = mapping


ArchitectureAdapterFactory.register_adapter(ARCHITECTURE, Adapter)
