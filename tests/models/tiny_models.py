"""Tiny models of Hugging Face's families with random weights, and inputs for them."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoConfig,
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


def other(kind: str, **settings: Any) -> PreTrainedModel:
    """A model of another family: no tensor of it is drawn anew, and none is trained."""
    torch.manual_seed(0)
    common = {name: SHAPE[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "pad_token_id")}
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **common | settings)).eval()


HEADS: dict[str, Any] = {name: SHAPE[name] for name in ("num_attention_heads", "intermediate_size")}
GROUPS: dict[str, Any] = HEADS | {"num_key_value_heads": 2, "max_position_embeddings": 32}
EXPERTS: dict[str, Any] = {
    **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    **{"n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "topk_method": "greedy"},
}
LATENT: dict[str, Any] = {
    **(HEADS | EXPERTS | {"max_position_embeddings": 32, "n_routed_experts": 4, "kv_lora_rank": 16}),
    **{"q_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 6, "v_head_dim": 10},
}
MAMBA: dict[str, Any] = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}
OPT: dict[str, Any] = {"ffn_dim": 48, "num_attention_heads": 4}
NO_ATTENTION, NOT_CAUSAL, NO_RESIDUAL = "layer 0 has no attention", "is not causal", "no residual stream to read"
OTHER_FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Mamba": (NO_ATTENTION, "mamba", {"state_size": 8}),
    "Mamba 2": (
        NO_ATTENTION,
        "mamba2",
        {"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
    ),
    "RWKV": (NO_ATTENTION, "rwkv", {"context_length": 32, "attention_hidden_size": 32}),
    "RecurrentGemma": (
        NO_ATTENTION,
        "recurrent_gemma",
        HEADS | {"lru_width": 32, "attention_window_size": 16, "head_dim": 8, "num_hidden_layers": 3},
    ),
    "Bamba": (NO_ATTENTION, "bamba", GROUPS | MAMBA | {"attn_layer_indices": [1], "mamba_n_groups": 1}),
    "LFM2": (NO_ATTENTION, "lfm2", GROUPS | {"layer_types": ["conv", "full_attention"]}),
    "Falcon-H1, attention and Mamba in one layer": (NO_RESIDUAL, "falcon_h1", GROUPS | MAMBA | {"mamba_d_ssm": 64}),
    "BERT, an encoder": (NOT_CAUSAL, "bert", HEADS | {"max_position_embeddings": 32}),
    "BERT as a decoder": (NO_RESIDUAL, "bert", HEADS | {"max_position_embeddings": 32, "is_decoder": True}),
    "GPT, norms on the residual": (NO_RESIDUAL, "openai-gpt", {"n_embd": 32, "n_layer": 2, "n_head": 4}),
    "Llama that reads both ways": (NOT_CAUSAL, "llama", GROUPS | {"is_causal": False}),
    "Gemma 3 that reads both ways": (
        NOT_CAUSAL,
        "gemma3_text",
        GROUPS | {"head_dim": 8, "use_bidirectional_attention": True},
    ),
    "RoBERTa as a decoder": ("has no bridge for RobertaForCausalLM", "roberta", HEADS | {"is_decoder": True}),
    "OPT, norms on the residual": (
        "which has do_layer_norm_before=False, so that it cannot be opened",
        "opt",
        OPT | {"word_embed_proj_dim": 32, "do_layer_norm_before": False},
    ),
    "OPT, a narrow embedding": (
        "its embedding is 16 wide and its residual 32",
        "opt",
        OPT | {"word_embed_proj_dim": 16},
    ),
    "Falcon, new": (
        "which has new_decoder_architecture=True, so",
        "falcon",
        {"num_attention_heads": 4, "new_decoder_architecture": True, "num_kv_heads": 2},
    ),
    "Falcon, ALiBi": (
        "which has alibi=True, multi_query=False, so that it cannot be opened: its logits differ",
        "falcon",
        {"num_attention_heads": 4, "alibi": True, "multi_query": False},
    ),
    "GPT-NeoX, a field of others": (
        r"whose config has num_key_value_heads, unknown to GPTNeoXConfig \(take it out\)",
        "gpt_neox",
        GROUPS,
    ),
    "GPT-NeoX, no biases": (
        "which has attention_bias=False, .*: AssertionError;",
        "gpt_neox",
        HEADS | {"attention_bias": False},
    ),
    "HRM, layers in two stacks": ("no single list of layers", "hrm_text", GROUPS),
}
"""Models that Transformers calls causal and instruments cannot read: why not, the model type, and its settings."""
