"""The attention variants as attention functions of Transformers, with the masks that they need.

    from workbench.models.pretrained import set_attention

    set_attention(model, {"variant": "chacal", "gamma": 0.9}, layers=[4, 5])   # chosen layers, with settings
    model.set_attn_implementation("chacal")                                    # every layer, with the default settings

The model keeps its weights and all else that is its own: positions, norms, grouped queries, scale of the scores. The
mathematics is that of `workbench.models.attention`: nothing is computed here.

Not supported, and refused with a ValueError: sliding windows, capped scores, attention sinks, biases of the scores,
masks that hide more than padding and the future, dropout of patterns, attention that is not causal, and, for variants
that keep a memory of their own when decoding, caches other than Transformers' `DynamicCache`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface
from transformers.utils import output_capturing

from workbench.models.attention import ATTENTION, Attention
from workbench.models.config import attention_per_layer
from workbench.models.pretrained.cache import keep, remembered, watch, without_cache
from workbench.models.pretrained.padding import Packing, packing

PER_LAYER = "workbench"
"""The attention implementation whose layers have each the variant that the model's config names under `FIELD`."""
FIELD = "workbench_attention"
LENT = "workbench_lent_variant"
"""The attribute of an attention module that reads with a variant which is no part of the model (`lend`)."""
REFUSED = {
    "sliding_window": "a sliding window",
    "softcap": "capped scores",
    "s_aux": "attention sinks",
    "position_bias": "a bias of the scores by position",
}


def register() -> None:
    """Register every variant with Transformers' attention interface, and its mask with the mask interface.

    Without the second, Transformers would make no causal mask at all, and say nothing.
    """
    for name in (PER_LAYER, *(name for name in ATTENTION if name != "standard")):
        AttentionInterface.register(name, _attend)
        AttentionMaskInterface.register(name, sdpa_mask)


def set_attention(model: PreTrainedModel, attention: Any, layers: Iterable[int] | None = None) -> None:
    """Give a Hugging Face model this library's attention, in all layers or in chosen ones; its weights stay.

    What each layer has stands in the model's config, and is saved with it.

    Args:
        model: a causal language model of `transformers`.
        attention: one variant or one per layer, as `DecoderConfig.attention`: a name, a mapping with settings such as
            `{"variant": "chacal", "gamma": 0.8}`, or a list of these. `standard` is the model's own.
        layers: 0-based numbers of the layers to change, which all get the one variant; the others keep what they have.

    Raises:
        ValueError: if a variant, a setting or a layer does not exist, or the model cannot have it; the model is as it
            was then.
    """
    register()  # plugins may have added variants
    config = model.config.get_text_config(decoder=True)
    n_layers = config.num_hidden_layers
    each = list(attention_per_layer(attention, n_layers if layers is None else 1))
    if layers is not None:
        chosen, now = list(layers), [_layer_settings(config, i) for i in range(n_layers)]
        wrong = [i for i in chosen if not 0 <= i < n_layers]
        if wrong:
            raise ValueError(f"there is no layer {wrong[0]}; the model's layers are 0 to {n_layers - 1}")
        each = [each[0] if i in chosen else now[i] for i in range(n_layers)]
    for i, settings in enumerate(each):
        _check_fits(settings, config, i)
    if not model._can_set_attn_implementation():
        raise ValueError(
            f"the attention of {type(model).__name__} cannot be exchanged: it does not go through Transformers' "
            "attention interface"
        )
    setattr(config, FIELD, each)
    model.set_attn_implementation(PER_LAYER)
    watch(model)


def attention_of(model: PreTrainedModel) -> tuple[Attention, ...]:
    """The attention variant of each layer, first layer first; `standard` where it is the model's own."""
    config = model.config.get_text_config(decoder=True)
    return tuple(_variant(_layer_settings(config, i), config) for i in range(config.num_hidden_layers))


def _layer_settings(config: Any, layer: int) -> dict[str, Any]:
    """The variant of one layer and its settings, as a model's config has them."""
    name = config._attn_implementation
    if name == PER_LAYER:
        if not hasattr(config, FIELD):
            raise ValueError(
                f'the attention "{PER_LAYER}" needs a variant for each layer: call '
                "workbench.models.pretrained.set_attention(model, attention)"
            )
        return dict(getattr(config, FIELD)[layer])
    return attention_per_layer(name if name in ATTENTION else "standard", 1)[0]


def _variant(settings: dict[str, Any], config: Any) -> Attention:
    """The variant of these settings for a model's context. Raises ValueError if they do not exist."""
    rest = dict(attention_per_layer(settings, 1)[0])
    kind: Any = ATTENTION[rest.pop("variant")]
    n_ctx = int(getattr(config, "max_position_embeddings", None) or 2048)
    return _cached_variant(kind, n_ctx, json.dumps(rest, sort_keys=True))


@lru_cache(maxsize=1024)
def _cached_variant(kind: type[Attention], n_ctx: int, settings: str) -> Attention:
    return kind.for_model(n_ctx, **json.loads(settings)).requires_grad_(False)


def _check_fits(settings: dict[str, Any], config: Any, layer: int) -> None:
    """Raise ValueError if a layer cannot have the variant of these settings, as far as the model's config tells."""
    if settings["variant"] == "standard":
        return
    _check_variant(_variant(settings, config))
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise ValueError(f"this model's layers have capped scores, which {settings['variant']} attention has not")
    # What the layer is, in Transformers' words: `full_attention`, `sliding_attention`, `linear_attention`, …
    default = "full_attention" if getattr(config, "sliding_window", None) is None else "sliding_attention"
    kinds = getattr(config, "layer_types", None)
    kind = default if kinds is None else str(kinds[layer])
    if kind != "full_attention":
        words = "a sliding window" if "sliding" in kind or "chunked" in kind else f"no full attention, but {kind}"
        raise ValueError(
            f"layer {layer} has {words}, and {settings['variant']} attention reads every earlier token: choose other "
            "layers (layers=[…]), or take a window out of the model's config"
        )


def _check_variant(variant: Attention) -> None:
    """Raise ValueError if a variant needs the tokens, which an attention function does not see."""
    if variant.input_lengths(torch.zeros(1, 1, dtype=torch.long)) is not None:
        raise ValueError(
            f'{variant.name} attention that scales by the length of the input (n="input") needs the tokens, which '
            'Transformers does not give an attention function: take n="position" or a length'
        )


def _attend(
    module: nn.Module,
    query: Float[Tensor, "batch head query d_head"],
    key: Float[Tensor, "batch group key d_head"],
    value: Float[Tensor, "batch group key d_head"],
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **more: Any,
) -> tuple[Float[Tensor, "batch query head d_head"], None]:
    """What one layer reads, and None in place of a pattern: one of Transformers' attention functions.

    Args:
        module: the model's attention module.
        query, key, value: the new positions' queries, and keys and values of all positions, cached ones included; a
            group of heads may share its keys and values.
        attention_mask: as `padding.packing` takes it.
        scaling: what scores are multiplied with; by default 1/sqrt(d_head).
        dropout: of the pattern.
        more: whatever else a model passes on.

    Raises:
        ValueError: if the layer does what no variant can (see this module's docstring).
    """
    config, layer = cast(Any, module.config), int(cast(int, module.layer_idx))
    variant = module.__dict__.get(LENT) or _variant(_layer_settings(config, layer), config)
    if variant.name == "standard":
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
    _check_layer(module, variant, dropout, more)
    query = query if scaling is None else query * (scaling * query.shape[-1] ** 0.5)
    heads_per_group = query.shape[1] // key.shape[1]
    keys, values = (x.repeat_interleave(heads_per_group, dim=1) if heads_per_group > 1 else x for x in (key, value))
    packed = packing(attention_mask, len(query), query.shape[2], key.shape[2])
    z = _read_new(variant, (query, keys, values), packed, module, value)
    return z.transpose(1, 2).contiguous(), None


def lend(model: PreTrainedModel, variants: Mapping[int, Attention] | None) -> None:
    """Let layers read with variants whose parameters are no part of the model, in place of what its config names.

    Args:
        model: a model that `set_attention` gave variants with the same memory.
        variants: layer -> its variant; None takes back what was lent.
    """
    for module in model.modules():
        if hasattr(module, "layer_idx"):
            module.__dict__.pop(LENT, None)
            if variants is not None and int(module.layer_idx) in variants:  # type: ignore[arg-type]
                module.__dict__[LENT] = variants[int(module.layer_idx)]  # type: ignore[arg-type]


def _check_layer(module: nn.Module, variant: Attention, dropout: float, more: dict[str, Any]) -> None:
    """Raise ValueError if a layer's attention does what the variant cannot."""
    _check_variant(variant)
    layer = f"layer {module.layer_idx} of this model"
    if "attentions" in (output_capturing._active_collector.get() or ()):
        raise ValueError(
            f"{layer} returns no pattern of {variant.name} attention (output_attentions=True): "
            "workbench.load_model(…).hooked().run_with_cache(…) has it as hook_pattern"
        )
    for name, words in REFUSED.items():
        if more.get(name) is not None or (name == "sliding_window" and getattr(module, name, None) is not None):
            raise ValueError(
                f"{layer} has {words}, which {variant.name} attention has not: choose other layers with "
                "workbench.models.pretrained.set_attention(model, attention, layers=[…])"
            )
    if more.get("is_causal") is False or getattr(module, "is_causal", True) is False:
        raise ValueError(f"{layer} is not causal, and {variant.name} attention is")
    if dropout:
        raise ValueError(
            f"{layer} drops {dropout:g} of its attention pattern while it trains, and {variant.name} attention has no "
            "such dropout: set it to 0 in the model's config (attn_pdrop or attention_dropout)"
        )


Heads = Float[Tensor, "batch head pos d_head"]


def _read_new(
    variant: Attention, qkv: tuple[Heads, Heads, Heads], packed: Packing | None, module: nn.Module, cached: Tensor
) -> Heads:
    """What the queries read, and beside the cache what their positions leave for later ones.

    Args:
        variant: the attention variant.
        qkv: queries of the new positions, which are the last ones; keys and values of all.
        packed: where there is padding.
        module: the attention module that is running.
        cached: the values as the cache holds them.

    Raises:
        ValueError: if earlier positions were cached and not all is there that the variant needs of them, or if a
            gradient is asked for through a memory of them.
    """
    q, k, v = qkv
    n_old = k.shape[2] - q.shape[2]
    trains = torch.is_grad_enabled() and any(x.requires_grad for x in qkv)
    if not n_old and (variant.takes_one_step or trains or without_cache(module)):
        if not variant.takes_one_step:
            keep(module, cached, None)
        if packed is None:
            return variant.mix(q, k, v)
        return packed.unpack(variant.mix(packed.pack(q), packed.pack(k), packed.pack(v)))
    if variant.takes_one_step:  # it keeps the values alone, which are in the cache
        return _extend(variant, qkv, v.clone(), packed)[0]
    if trains:
        raise ValueError(f"{variant.name} attention goes on from a cache without gradients: use torch.no_grad()")
    dtype = torch.promote_types(q.dtype, torch.float32)
    room = q.new_zeros(*q.shape[:-1], variant.memory_width(v.shape[-1]), dtype=dtype)  # [batch, head, new, d_memory]
    earlier = remembered(module, n_old)
    z, memory = _extend(variant, qkv, room if earlier is None else torch.cat([earlier, room], dim=-2), packed)
    keep(module, cached, memory)
    return z


def _extend(
    variant: Attention, qkv: tuple[Heads, Heads, Heads], memory: Tensor, packed: Packing | None
) -> tuple[Heads, Tensor]:
    """What the last positions read, and the memory of all positions with their rows written."""
    q, k, v = qkv
    n_new, n_key = q.shape[2], k.shape[2]
    if packed is None:
        return variant.extend(q, k, v[:, :, n_key - n_new :], memory), memory
    if n_new == n_key:
        packed_memory = packed.pack(memory)
        z = variant.extend(packed.pack(q), packed.pack(k), packed.pack(v), packed_memory)
        return packed.unpack(z), packed.unpack(packed_memory)
    rows = []
    for end in range(n_key - n_new + 1, n_key + 1):  # padded sequences differ in length: they go on by one token
        until = packed.until(end)
        here, packed_memory = slice(end - 1, end), until.pack(memory[:, :, :end])
        query = q[:, :, end - 1 - n_key + n_new : end - n_key + n_new]
        rows.append(variant.extend(query, until.pack(k[:, :, :end]), v[:, :, here], packed_memory, until.place[:, -1]))
        memory = torch.cat([until.unpack(packed_memory), memory[:, :, end:]], dim=2)
    return torch.cat(rows, dim=2), memory
