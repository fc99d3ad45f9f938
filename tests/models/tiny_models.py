"""Tiny models of Hugging Face's families with random weights, and inputs for them."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

SHAPE: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 32,
    "attention_dropout": 0.0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}
GPT2: dict[str, Any] = {
    "vocab_size": 40,
    "n_positions": 32,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "attn_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "resid_pdrop": 0.0,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
}
FAMILIES: dict[str, Any] = {
    "gpt2": lambda **more: GPT2Config(**GPT2 | more),
    "gpt_neox": lambda **more: GPTNeoXConfig(**{k: v for k, v in SHAPE.items() if k != "num_key_value_heads"} | more),
    "llama": lambda **more: LlamaConfig(**SHAPE | more),
    "qwen2": lambda **more: Qwen2Config(**SHAPE | more),
    "qwen3": lambda **more: Qwen3Config(**SHAPE | more),
    "gemma": lambda **more: GemmaConfig(**SHAPE | {"num_key_value_heads": 1} | more),
    "mistral": lambda **more: MistralConfig(**SHAPE | {"sliding_window": None} | more),
    "gemma2": lambda **more: Gemma2Config(**SHAPE | more),
    "gemma3": lambda **more: Gemma3TextConfig(
        **SHAPE | {"layer_types": ["sliding_attention", "full_attention"]} | more
    ),
}
SUPPORTED = ("gpt2", "gpt_neox", "llama", "qwen2", "qwen3", "gemma", "mistral")
"""Families all of whose layers can have every variant."""


def tiny(family: str, seed: int = 0, **more: Any) -> PreTrainedModel:
    """A model of two layers; its attention is sharp enough for a variant to matter."""
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(FAMILIES[family](**more)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                weight.normal_(std=0.2)
            elif "bias" in name:
                weight.normal_(std=0.1)
    return model


def tokens(n: int = 3, length: int = 12, seed: int = 0) -> torch.Tensor:
    """Random tokens `[n, length]`, none of them padding."""
    return torch.randint(2, 40, (n, length), generator=torch.Generator().manual_seed(seed))
