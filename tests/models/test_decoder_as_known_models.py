"""Our decoder with the weights of a Transformers Llama and GPT-2 has their logits.

Transformers computes Llama's norms and angles in float32 whatever its weights are: in float64 the oracle's norms are
PyTorch's own, and its angles are tables made here.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from workbench.models import Decoder, DecoderConfig
from workbench.models.hooked import hook
from workbench.util.seeds import generator

# The largest logits are about 4; float32 sums in another order on another processor: 1.1e-5 apart was seen.
TOLERANCE = {torch.float32: 5e-5, torch.float64: 1e-10}
SHAPE: dict[str, Any] = {"n_layers": 3, "d_model": 32, "n_heads": 4, "d_vocab": 29, "n_ctx": 40}
each_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def tokens() -> Tensor:
    return torch.randint(0, 29, (3, 40), generator=generator(2))


@torch.no_grad()
def shaken(model: nn.Module) -> nn.Module:
    """All weights far from their gentle start."""
    draws = generator(3)
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn(parameter.shape, generator=draws).to(parameter)
    return model.eval()


class Angles(nn.Module):
    """Cosines and sines of Llama's angles in float64: p / 10000^(2i/d), for coordinates i and i + d/2 alike."""

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.d_head = d_head

    def forward(self, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        periods = [10_000 ** (2 * i / self.d_head) for i in range(self.d_head // 2)]
        angles = position_ids[..., None].double() / torch.tensor(periods * 2, dtype=torch.float64)
        return angles.cos(), angles.sin()


def llama(dtype: torch.dtype) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=29,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=40,
        rms_norm_eps=1e-6,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).to(dtype)
    if dtype == torch.float64:
        model.model.rotary_emb = Angles(8)
        norms = {name: part for name, part in model.named_modules() if type(part).__name__ == "LlamaRMSNorm"}
        for name in norms:
            model.set_submodule(name, nn.RMSNorm(32, eps=1e-6, dtype=torch.float64))
    return shaken(model)  # type: ignore[return-value]


@torch.no_grad()
def as_llama(theirs: LlamaForCausalLM, attention: Any = "standard") -> Decoder:
    """Our decoder with a Llama's weights; it has biases where a Llama has none, and they are 0."""
    shape = {"n_kv_heads": 2, "d_mlp": 48, "positions": "rotary", "activation": "swiglu", "norm": "rmsnorm"}
    ours = Decoder(DecoderConfig(**SHAPE, **shape, attention=attention)).to(theirs.dtype).eval()
    for name, parameter in ours.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
    pairs = [(ours.token_embedding, theirs.model.embed_tokens), (ours.final_norm, theirs.model.norm)]
    for own, layer in zip(ours.layers, theirs.model.layers, strict=True):
        pairs += [(getattr(own.attn, name), getattr(layer.self_attn, f"{name}_proj")) for name in "qkvo"]
        pairs += [(own.mlp.fc_in, layer.mlp.up_proj), (own.mlp.gate, layer.mlp.gate_proj)]
        pairs += [(own.mlp.fc_out, layer.mlp.down_proj)]
        pairs += [(own.ln1, layer.input_layernorm), (own.ln2, layer.post_attention_layernorm)]
    for to, source in [*pairs, (ours.unembedding, theirs.lm_head)]:
        to.weight.copy_(source.weight)
    return ours


@torch.no_grad()
def as_gpt2(theirs: GPT2LMHeadModel) -> Decoder:
    """Our decoder with a GPT-2's weights, which lie the other way round there, queries, keys and values in one."""
    shape = {"d_mlp": 128, "positions": "learned", "activation": "gelu_tanh", "norm": "layernorm", "tied": True}
    ours, body = Decoder(DecoderConfig(**SHAPE, **shape)).to(theirs.dtype).eval(), theirs.transformer
    ours.token_embedding.weight.copy_(body.wte.weight)
    ours.position_embedding.weight.copy_(body.wpe.weight)
    ours.final_norm.load_state_dict(body.ln_f.state_dict())
    for own, layer in zip(ours.layers, body.h, strict=True):
        own.ln1.load_state_dict(layer.ln_1.state_dict())
        own.ln2.load_state_dict(layer.ln_2.state_dict())
        for name, weight, bias in zip(
            "qkv", layer.attn.c_attn.weight.chunk(3, dim=1), layer.attn.c_attn.bias.chunk(3), strict=True
        ):
            getattr(own.attn, name).load_state_dict({"weight": weight.T, "bias": bias})
        for to, source in (
            (own.attn.o, layer.attn.c_proj),
            (own.mlp.fc_in, layer.mlp.c_fc),
            (own.mlp.fc_out, layer.mlp.c_proj),
        ):
            to.load_state_dict({"weight": source.weight.T, "bias": source.bias})
    return ours


def gpt2(dtype: torch.dtype) -> GPT2LMHeadModel:
    config = GPT2Config(vocab_size=29, n_positions=40, n_embd=32, n_layer=3, n_head=4, attn_implementation="sdpa")
    return shaken(GPT2LMHeadModel(config).to(dtype))  # type: ignore[return-value]


def assert_as(ours: Tensor, theirs: Tensor) -> None:
    """Equal to the tolerance of their type."""
    apart = (ours - theirs).abs().max().item()
    assert ours.dtype == theirs.dtype and apart < TOLERANCE[ours.dtype], apart


@each_dtype
@torch.no_grad()
def test_with_a_llamas_weights_the_decoder_hooked_and_cached_has_its_logits(dtype: torch.dtype) -> None:
    theirs = llama(dtype)
    ours, logits = as_llama(theirs), theirs(tokens()).logits
    assert_as(ours(tokens()), logits)
    assert_as(hook(ours)(tokens()), logits)
    cache = ours.cache(3)
    assert_as(torch.cat([ours.extend(part, cache) for part in tokens().split([30, 1, 9], dim=1)], dim=1), logits)


@each_dtype
@torch.no_grad()
def test_with_gpt2s_weights_the_decoder_hooked_has_its_logits(dtype: torch.dtype) -> None:
    theirs = gpt2(dtype)
    ours, logits = as_gpt2(theirs), theirs(tokens()).logits
    assert_as(ours(tokens()), logits)
    assert_as(hook(ours)(tokens()), logits)
    cache = ours.cache(3)
    assert_as(torch.cat([ours.extend(part, cache) for part in tokens().split([30, 1, 9], dim=1)], dim=1), logits)


@torch.no_grad()
def test_a_llama_with_chacal_of_gamma_0_stays_a_llama() -> None:
    theirs = llama(torch.float64)
    assert_as(as_llama(theirs, {"variant": "chacal", "gamma": 0.0})(tokens()), theirs(tokens()).logits)
    assert not torch.allclose(as_llama(theirs, "chacal")(tokens()), theirs(tokens()).logits, atol=1e-2)


@torch.no_grad()
def test_with_chacal_both_paths_into_a_llama_are_one_model() -> None:
    """The variant set in Transformers' Llama, and our decoder's layer, on the same weights."""
    from workbench.models.pretrained import set_attention

    theirs = llama(torch.float64)
    ours = as_llama(theirs, {"variant": "chacal", "gamma": 0.9})(tokens())
    set_attention(theirs, {"variant": "chacal", "gamma": 0.9})
    assert_as(ours, theirs(tokens()).logits)
