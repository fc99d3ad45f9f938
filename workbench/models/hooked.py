"""A decoder as a TransformerLens bridge, on the explicit path: every TransformerLens tool works on every variant."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_bridge import generalized_components as bridges
from transformer_lens.model_bridge.architecture_adapter import ArchitectureAdapter
from transformer_lens.model_bridge.generalized_components.base import GeneralizedComponent
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

from workbench.models.decoder import Decoder
from workbench.models.facts import agree, probe_tokens
from workbench.models.hooked_attention import ExplicitAttentionBridge
from workbench.models.hooked_decoder import HookedDecoder
from workbench.models.norms_and_mlps import MLPS, NORMS
from workbench.models.own_model import OwnModel
from workbench.models.own_model_hooks import HookedModule
from workbench.models.positions import POSITIONS, SinusoidalPositions

__all__ = ["AnyHooked", "HookedDecoder", "hook", "hook_alike"]

AnyHooked = TransformerBridge | HookedModule
"""What can be run with hooks: TransformerLens's bridge, ours included, or a hooked module of one's own."""

ARCHITECTURE = "WorkbenchDecoder"


@overload
def hook(model: Decoder) -> HookedDecoder: ...
@overload
def hook(model: OwnModel) -> HookedModule: ...
def hook(model: Decoder | OwnModel) -> HookedDecoder | HookedModule:
    """Hook a copy of a decoder; the model itself stays as it is and can go on training. A model of one's own as well.

    The copy, in eval mode, computes scores, pattern and reading one after the other, so that an edit of
    `hook_attn_scores` or `hook_pattern` changes what is read (for ChaCAL, what is solved). Its logits are the main
    head's. Names and shapes of hook points are TransformerLens's own: `blocks.0.hook_resid_pre` is
    `[batch, pos, d_model]`, `blocks.0.attn.hook_q` `[batch, pos, head, d_head]`, `blocks.0.attn.hook_pattern`
    `[batch, head, query, key]`. With rotary positions `hook_q` and `hook_k` come before they are turned,
    `hook_rot_q` and `hook_rot_k` after. A variant whose pattern does not come from `Attention.scores` has none there:
    NaN, and an edit of them is an error.

    Raises:
        ValueError: if this is no decoder, or the hooked copy does not compute what the decoder does on a few tokens: an
            attention variant whose fast path is not its pattern and reading would be inspected as another model.
    """
    if isinstance(model, OwnModel):
        return model.hooked()
    if not isinstance(model, Decoder):
        raise ValueError(f"hook takes a workbench Decoder, not a {type(model).__name__}")
    bridge, same = _bridge_and_check(copy.deepcopy(model).eval())
    if not same:
        # In float32, very sharp attention (weights written by hand, scores in the thousands) can make the logits differ
        # by rounding alone, although they are the same model.
        device = "cpu" if model.token_embedding.weight.device.type == "mps" else model.token_embedding.weight.device
        _, same = _bridge_and_check(copy.deepcopy(model).eval().to(device, torch.float64))
    if not same:
        layers = "; ".join(dict.fromkeys(layer["variant"] for layer in model.config.attention))
        raise ValueError(
            "the hooked model does not compute what the model does: its logits differ on the same tokens. The two "
            f"paths of an attention variant must agree, mix(q, k, v) and read(pattern(q, k), v); it has: {layers}"
        )
    return bridge


def hook_alike(models: Sequence[Decoder | OwnModel]) -> list[AnyHooked]:
    """Hook copies of models that differ in their weights alone, such as freshly drawn ones; as `hook` does each.

    One bridge is built, and copied for each with its own weights, which takes a third of the time of building each.

    Raises:
        ValueError: as `hook`.
    """
    decoders = [model for model in models if isinstance(model, Decoder)]
    if not decoders or len(decoders) < len(models):
        return [hook(model) for model in models]
    bare = copy.deepcopy(decoders[0]).eval()
    originals, bridge, tokens = [*bare.parameters(), *bare.buffers()], _bridge(bare), _probe(bare)
    hooked: list[AnyHooked] = []
    for model in decoders:
        copied, tensors = copy.deepcopy((bridge, originals))
        for tensor, given in zip(tensors, [*model.parameters(), *model.buffers()], strict=True):
            tensor.data = given.detach().clone()
        with torch.no_grad():
            same = agree(copied(tokens), copy.deepcopy(model).eval()(tokens))
        # A part with tensors that PyTorch does not know of is hooked from the start; `hook` also says what is wrong.
        hooked.append(copied if same else hook(model))
    return hooked


def _bridge_and_check(bare: Decoder) -> tuple[HookedDecoder, bool]:
    """The bridge around this very decoder, and whether it computes the same logits but for rounding."""
    tokens = _probe(bare)
    with torch.no_grad():
        logits = bare(tokens)
    bridge = _bridge(bare)
    with torch.no_grad():
        return bridge, agree(bridge(tokens), logits)


def _bridge(model: Decoder) -> HookedDecoder:
    """The bridge around this very decoder, whose modules it takes."""
    config = model.config
    bridge_config = TransformerBridgeConfig.from_dict(
        {
            "architecture": ARCHITECTURE,
            "model_name": ARCHITECTURE,
            "d_model": config.d_model,
            "n_heads": config.n_heads,
            "d_head": config.d_head,
            "n_key_value_heads": None if config.n_kv_heads == config.n_heads else config.n_kv_heads,
            "d_mlp": config.d_mlp,
            "attn_only": not config.d_mlp,
            "n_layers": config.n_layers,
            "n_ctx": config.n_ctx,
            "d_vocab": config.d_vocab,
            "d_vocab_out": config.d_vocab,
            "act_fn": MLPS[config.activation].lens_name,
            "gated_mlp": MLPS[config.activation].gated,
            "normalization_type": NORMS[config.norm].lens_name,
            "eps": NORMS[config.norm].eps,
            "positional_embedding_type": POSITIONS[config.positions].lens_name,
            "rotary_dim": config.d_head if POSITIONS[config.positions].turn else None,
        }
    )
    bridge = build_bridge_from_module(_ExplicitDecoder(model), architecture=ARCHITECTURE, tl_config=bridge_config)
    bridge.__class__ = HookedDecoder  # the builder has no say in the class
    return cast(HookedDecoder, bridge.eval())


def _probe(model: Decoder) -> Int[Tensor, "batch pos"]:
    return probe_tokens(model.config.d_vocab, model.config.n_ctx, model.token_embedding.weight.device)


class _ExplicitDecoder(nn.Module):
    """A `Decoder` as TransformerLens expects a model, from the decoder's own modules and without its extra heads."""

    def __init__(self, model: Decoder) -> None:
        super().__init__()
        self.token_embedding, self.position_embedding = model.token_embedding, model.position_embedding
        if isinstance(self.position_embedding, SinusoidalPositions):  # processing of weights changes the rows
            self.position_embedding = self.position_embedding.table()
        self.dropout = model.dropout
        self.layers = model.layers
        self.final_norm, self.unembedding = model.final_norm, model.unembedding
        self.check, self.input_lengths = model._check, model.input_lengths

    def forward(
        self,
        input_ids: Int[Tensor, "batch pos"] | None = None,
        inputs_embeds: Float[Tensor, "batch pos d_model"] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        given = input_ids if inputs_embeds is None else inputs_embeds
        assert given is not None
        if given.is_floating_point() and given.ndim == 3:  # how TransformerLens starts at a later layer
            tokens = torch.zeros(given.shape[:2], dtype=torch.long, device=given.device)
            x, lengths = given, self.input_lengths(tokens)
            needing = [i for i, of_layer in enumerate(lengths) if of_layer is not None]
            if needing:
                raise ValueError(
                    f"the queries of layer {needing[0]} depend on the length of each input, which a residual does not "
                    "tell: give tokens instead, and start at the first layer"
                )
        else:
            self.check(given)
            x, lengths = self.token_embedding(given), self.input_lengths(given)
        if self.position_embedding is not None:
            x = x + self.position_embedding(torch.arange(x.shape[1], device=x.device).unsqueeze(0))
        x = self.dropout(x)
        for layer, of_layer in zip(self.layers, lengths, strict=True):
            (x,) = layer(x) if of_layer is None else layer(x, input_lengths=of_layer)
        return self.unembedding(self.final_norm(x))


class _Adapter(ArchitectureAdapter):
    """The adapter that tells TransformerLens where the parts of an `_ExplicitDecoder` are."""

    supports_kv_cache = False
    supports_hf_output_attentions = False

    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)

        def norm(name: str) -> GeneralizedComponent:
            if cfg.normalization_type is None:
                return GeneralizedComponent(name=name, config=cfg)
            return bridges.NormalizationBridge(name=name, config=cfg, uses_rms_norm=cfg.normalization_type == "RMS")

        linears: dict[str, GeneralizedComponent] = {name: bridges.LinearBridge(name=name) for name in "qkvo"}
        blocks: dict[str, GeneralizedComponent] = {
            "ln1": norm("ln1"),
            "attn": ExplicitAttentionBridge(name="attn", config=cfg, submodules=linears),
            # A step of its own, so that an edit of `hook_resid_mid` edits the residual; where a block has no such step,
            # TransformerLens hooks the MLP's input alone. Without an MLP it equals `hook_resid_post`.
            "resid_mid": GeneralizedComponent(name="middle", config=cfg),
        }
        if not cfg.attn_only:
            # maps that run one after the other, each through its hook points
            names = {"in": "fc_in", "out": "fc_out", **({"gate": "gate"} if cfg.gated_mlp else {})}
            maps: dict[str, GeneralizedComponent] = {
                role: bridges.LinearBridge(name=name) for role, name in names.items()
            }
            gated = bridges.GatedMLPBridge("mlp", config=cfg, submodules=maps) if cfg.gated_mlp else None
            blocks |= {"ln2": norm("ln2"), "mlp": gated or bridges.MLPBridge("mlp", submodules=maps)}
        mapping: dict[str, Any] = {"embed": bridges.EmbeddingBridge(name="token_embedding")}
        if cfg.positional_embedding_type == "standard":
            mapping["pos_embed"] = bridges.PosEmbedBridge(name="position_embedding")
        middle = {"hook_resid_mid": "resid_mid.hook_out"}
        block = bridges.BlockBridge(name="layers", config=cfg, submodules=blocks, hook_alias_overrides=middle)
        if cfg.attn_only:
            block.hook_aliases = {name: at for name, at in block.hook_aliases.items() if name != "hook_mlp_out"}
        mapping["blocks"] = block
        mapping["ln_final"] = norm("final_norm")
        mapping["unembed"] = bridges.UnembeddingBridge(name="unembedding")
        self.component_mapping = mapping


ArchitectureAdapterFactory.register_adapter(ARCHITECTURE, _Adapter)
