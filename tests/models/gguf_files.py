"""Tiny models in a file as llama.cpp's converter writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import byte_level

PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTSIDE = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
NORMAL, CONTROL = 1, 3  # types of tokens


def llama(tokenizer: PreTrainedTokenizerBase | None = None) -> PreTrainedModel:
    """A tiny Llama with a row for each token, whose rows can be quantised."""
    n_tokens = 40 if tokenizer is None else len(tokenizer)
    return tiny("llama", vocab_size=n_tokens, intermediate_size=64, tie_word_embeddings=True)


def write(
    path: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase | None = None,
    kind: str = "F32",
    fields: dict[str, Any] | None = None,
    tensors: dict[str, Any] | None = None,
) -> Path:
    """Write a Llama, its matrices of a kind such as `Q4_1`.

    Args:
        path, model, tokenizer, kind: where, and what.
        fields, tensors: further ones, or in place of those that the file would have; a tensor that is None is left out.
    """
    from gguf import GGMLQuantizationType, GGUFWriter, quantize

    config, writer = model.config, GGUFWriter(path, "llama")
    numbers = {
        "context_length": config.max_position_embeddings,
        "block_count": config.num_hidden_layers,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "rope.dimension_count": config.head_dim,
    }
    said = {f"llama.{name}": value for name, value in numbers.items()} | (fields or {})
    for name, value in said.items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(name, value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", config.rms_norm_eps)
    writer.add_float32("llama.rope.freq_base", config.rope_parameters["rope_theta"])
    if tokenizer is not None:
        _write_tokenizer(writer, tokenizer)
    for name, values in (_tensors(model) | (tensors or {})).items():
        if values is None:
            continue
        of_kind = GGMLQuantizationType[kind if values.ndim == 2 else "F32"]
        writer.add_tensor(name, quantize(values, of_kind), raw_dtype=of_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(writer: Any, tokenizer: PreTrainedTokenizerBase) -> None:
    import json

    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    words = sorted(tokenizer.get_vocab(), key=lambda word: tokenizer.get_vocab()[word])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types([CONTROL if word in tokenizer.all_special_tokens else NORMAL for word in words])
    writer.add_token_merges([" ".join(merge) for merge in backend["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)


def _tensors(model: PreTrainedModel) -> dict[str, np.ndarray]:
    """The weights under llama.cpp's names; the two halves of a head's query and key by turns."""
    config, tensors = model.config, dict[str, np.ndarray]()
    for name, weight in model.state_dict().items():
        values = weight.numpy()
        if name.startswith("model.layers."):
            layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}.get(PARTS[part])
            if heads:
                values = values.reshape(heads, 2, -1, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
            tensors[f"blk.{layer}.{PARTS[part]}.weight"] = values
        elif name != "lm_head.weight":
            tensors[OUTSIDE[name]] = values
    return tensors


def tiny_file(path: Path, kind: str = "Q4_1") -> Path:
    """A tiny Llama with a tokenizer, in a file."""
    tokenizer = byte_level()
    return write(path, llama(tokenizer), tokenizer, kind)
