"""The decoder against PyTorch's own layers, its options, its generation, and its configuration's errors."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.util.seeds import generator

SMALL: dict[str, Any] = {"n_layers": 2, "d_model": 12, "n_heads": 3, "d_vocab": 7, "n_ctx": 8}


def decoder(**shape: Any) -> Decoder:
    """A small decoder with all its weights, biases too, far from their gentle start."""
    g = generator(1)
    model = Decoder(DecoderConfig(**{**SMALL, **shape}), g)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=g)
    return model.eval()


def ragged(model: Decoder) -> Any:
    """A cache of three prompts of different lengths."""
    cache = model.cache(3)
    model.extend(tokens(2), cache, lengths=torch.tensor([1, 2, 1]))
    return cache


def tokens(pos: int = 6) -> Tensor:
    return torch.randint(0, 7, (3, pos), generator=generator(2))


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_a_standard_decoder_is_a_stack_of_pytorchs_pre_norm_layers(activation: str) -> None:
    model = decoder(activation=activation, d_mlp=20, unembed_bias=True)
    x = model.token_embedding(tokens()) + model.position_embedding.weight[:6]
    for layer in model.layers:
        oracle = nn.TransformerEncoderLayer(12, 3, 20, 0.0, activation, batch_first=True, norm_first=True).eval()
        attn, theirs = layer.attn, oracle.self_attn
        weights = {
            theirs.in_proj_weight: torch.cat([attn.q.weight, attn.k.weight, attn.v.weight]),
            theirs.in_proj_bias: torch.cat([attn.q.bias, attn.k.bias, attn.v.bias]),
        }
        pairs = [(theirs.out_proj, attn.o), (oracle.linear1, layer.mlp.fc_in), (oracle.linear2, layer.mlp.fc_out)]
        for to, source in [*pairs, (oracle.norm1, layer.ln1), (oracle.norm2, layer.ln2)]:
            weights |= {to.weight: source.weight, to.bias: source.bias}
        with torch.no_grad():
            for to_parameter, value in weights.items():
                to_parameter.copy_(value)
        x = oracle(x, src_mask=nn.Transformer.generate_square_subsequent_mask(6), is_causal=True)
    torch.testing.assert_close(model(tokens()), model.unembedding(model.final_norm(x)), atol=1e-5, rtol=1e-5)


def test_only_learned_positions_tell_the_order_of_earlier_tokens() -> None:
    """With one layer: deeper, the causal mask alone gives order away."""
    swapped = tokens()[:, [1, 0, 2, 3, 4, 5]]
    without, learned = (decoder(n_layers=1, positions=positions) for positions in ("none", "learned"))
    torch.testing.assert_close(without(swapped)[:, -1], without(tokens())[:, -1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(learned(swapped)[:, -1], learned(tokens())[:, -1], atol=1e-2)


def test_without_norm_the_logits_are_linear_in_the_last_residual() -> None:
    model = decoder(norm="none")
    logits, kept = model(tokens(), keep=["blocks.1.hook_resid_post"])
    assert torch.equal(logits, kept["blocks.1.hook_resid_post"] @ model.unembedding.weight.T)


def test_kept_activations_are_the_residual_between_layers() -> None:
    model = decoder()
    logits, kept = model(tokens(), keep=model.activation_names)
    assert list(kept) == model.activation_names and len(kept) == 7
    assert torch.equal(logits, model(tokens()))
    assert torch.equal(kept["blocks.0.hook_resid_post"], kept["blocks.1.hook_resid_pre"])
    attention = model.layers[0].attn(model.layers[0].ln1(kept["blocks.0.hook_resid_pre"]))
    torch.testing.assert_close(kept["blocks.0.hook_resid_mid"], kept["blocks.0.hook_resid_pre"] + attention)
    assert torch.equal(kept["ln_final.hook_out"], model.final_norm(kept["blocks.1.hook_resid_post"]))
    assert model(tokens(), keep=[])[1] == {}


def test_extra_heads_read_the_same_residual_and_only_theirs_learn() -> None:
    model = decoder(heads={"successor": 4, "count": 2})
    assert model(tokens(), "successor").shape == (3, 6, 4)
    logits, kept = model(tokens(), head="count", keep=["ln_final.hook_out"])
    assert torch.equal(logits, model.extra_heads["count"](kept["ln_final.hook_out"]))
    logits.sum().backward()
    assert model.unembedding.weight.grad is None and model.extra_heads["successor"].weight.grad is None
    assert model.token_embedding.weight.grad is not None


def test_a_tied_unembedding_is_the_embedding_and_stays_it() -> None:
    model = decoder(tied=True)
    assert model.unembedding.weight is model.token_embedding.weight
    assert len(list(model.parameters())) == len(list(decoder().parameters())) - 1
    again = Decoder(model.config).eval()
    again.load_state_dict(model.state_dict())
    assert again.unembedding.weight is again.token_embedding.weight
    assert torch.equal(again(tokens()), model(tokens()))


def test_each_layer_has_the_variant_it_is_given() -> None:
    model = decoder(n_layers=3, attention=["standard", {"variant": "chacal", "gamma": 0.5}, "tempered"])
    assert [layer.attn.variant.name for layer in model.layers] == ["standard", "chacal", "tempered"]
    assert model.layers[1].attn.variant.gamma == 0.5
    listed = DecoderConfig(**{**SMALL, "attention": "standard, chacal"})
    assert [settings["variant"] for settings in listed.attention] == ["standard", "chacal"]
    assert DecoderConfig(**SMALL, attention="chacal").attention == (listed.attention[1],) * 2


def test_tempering_starts_at_1_for_the_median_position() -> None:
    variant = decoder(attention="tempered", n_ctx=40).config.attention_layer(0)
    assert variant.beta.item() * math.log(20) == pytest.approx(1)


def test_heads_may_be_wider_or_narrower_than_the_model() -> None:
    for d_head in (1, 12, 20):
        model = decoder(d_head=d_head)
        assert model.layers[0].attn.q.weight.shape == (3 * d_head, 12)
        assert model(tokens()).shape == (3, 6, 7)


def test_the_generator_alone_decides_the_initial_weights() -> None:
    config = DecoderConfig(**SMALL, attention="tempered", heads={"hint": 2})
    first, second, other = (Decoder(config, generator(seed)) for seed in (3, 3, 4))
    for name, parameter in first.state_dict().items():
        assert torch.equal(parameter, second.state_dict()[name])
    assert not torch.equal(first.token_embedding.weight, other.token_embedding.weight)


def test_dropout_acts_in_training_alone() -> None:
    model = decoder(dropout=0.5)
    assert torch.equal(model(tokens()), model(tokens()))
    model.train()
    assert not torch.allclose(model(tokens()), model(tokens()), atol=1e-3)


def test_generation_in_the_middle_of_training_is_greedy_and_leaves_the_mode() -> None:
    model = decoder(dropout=0.5)
    expected = model.generate(tokens(3), 5)
    assert torch.equal(expected[:, :3], tokens(3)) and expected.shape == (3, 8)
    model.train()
    assert torch.equal(model.generate(tokens(3), 5), expected)
    assert model.training
    assert torch.equal(model.generate(tokens(3), 0), tokens(3))


def test_generation_through_a_mixture_of_variants_equals_recomputing() -> None:
    model = decoder(n_layers=3, attention=["standard", "chacal", "tempered"])
    expected = tokens(2)
    for _ in range(6):
        expected = torch.cat([expected, model(expected)[:, -1:].argmax(-1)], dim=1)
    assert torch.equal(model.generate(tokens(2), 6), expected)


@pytest.mark.parametrize(
    "attention",
    ["standard", "chacal", "tempered_chacal", {"variant": "tempered", "n": "input", "delimiters": [2, 3]}],
    ids=str,
)
def test_a_decoder_compiles_as_one_graph(attention: Any) -> None:
    model = decoder(attention=attention)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    results = []
    for run in (model, compiled):
        logits, kept = run(tokens(), keep=["blocks.0.hook_resid_post"])
        model.zero_grad()
        (logits.sin().sum() + kept["blocks.0.hook_resid_post"].square().sum()).backward()
        results.append((logits.detach(), model.token_embedding.weight.grad.clone()))
    for plain, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-5)


def test_a_prompt_padded_on_the_right_goes_on_from_its_own_end() -> None:
    model = decoder(attention="chacal")
    cache, whole = model.cache(3), tokens(5)
    first = model.extend(whole, cache, lengths=torch.tensor([5, 2, 3]))
    torch.testing.assert_close(first[1, 1], model(whole[:, :2])[1, 1], atol=1e-5, rtol=1e-5)
    new = torch.tensor([[1], [2], [3]])
    logits = model.extend(new, cache)
    for row, length in enumerate((5, 2, 3)):
        alone = model(torch.cat([whole[row, :length], new[row]])[None])
        torch.testing.assert_close(logits[row, 0], alone[0, -1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model(torch.tensor([[0, 7]])), "token 7 is outside the vocabulary 0..6"),
        (lambda model: model(torch.tensor([[0, -2]])), "token -2 is outside the vocabulary 0..6"),
        (lambda model: model(tokens(9)), "input of 9 tokens is longer than the context of 8"),
        (lambda model: model(tokens()[0]), r"tokens are integers \[batch, pos\] .*, not torch.int64 \[6\]"),
        (lambda model: model(tokens().float()), "not torch.float32"),
        (lambda model: model(tokens() > 2), "not torch.bool"),
        (lambda model: model(tokens(), "hint"), "unknown output head 'hint'; there is: main"),
        (lambda model: model(tokens(), keep=["blocks.2.hook_resid_pre"]), "no activation 'blocks.2.hook_resid_pre'"),
        (lambda model: model.generate(tokens(), 3), "6 tokens and 3 new ones are longer than the context of 8"),
        (lambda model: model.generate(tokens(0), 3), "needs prompts of at least one token"),
        (lambda model: model.generate(tokens(), -1), "n_new=-1"),
        (lambda model: model.generate(torch.tensor([[7]]), 1), "token 7 is outside the vocabulary"),
        (lambda model: model.generate([tokens()[0], tokens()[:1]], 1), "lengths \\[6, 6\\]"),
        (lambda model: model.extend(tokens(), model.cache(2)), "of 2 sequences and takes 1 token or more, not 3 of 6"),
        (lambda model: model.extend(tokens(), model.cache(3, 5)), "0 tokens and 6 new ones do not fit the cache of 5"),
        (lambda model: model.extend(tokens(), model.cache(3), torch.tensor([1, 2, 7])), "3 integers from 1 to 6"),
        (lambda model: model.extend(tokens(), ragged(model)), "one token at a time, not by 6"),
    ],
)
def test_wrong_inputs_are_refused_with_what_was_expected(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(decoder())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention": "chacl"}, r"unknown attention variant 'chacl' .did you mean 'chacal'\?.; there is: chacal"),
        ({"attention": ["standard"]}, "attention names 1 layers, but n_layers is 2"),
        ({"attention": {"variant": "chacal", "gama": 0.5}}, "no setting 'gama'; there is: gamma, form, diagonal"),
        ({"attention": {"variant": "standard", "gamma": 0.5}}, "no setting 'gamma'; there is: no setting"),
        ({"attention": {"variant": "chacal", "gamma": 1.0}}, "less than 1"),
        ({"attention": {"variant": "chacal", "form": "eq6"}}, "'eq5' or 'eq7'"),
        ({"attention": {"variant": "tempered", "n": 0}}, "a length of at least 1, not 0"),
        ({"attention": {"variant": "tempered", "n": "length"}}, "not 'length'"),
        ({"attention": {"gamma": 0.5}}, "a name or a mapping with 'variant'"),
        ({"attention": {"variant": ["chacal"]}}, "a name or a mapping with 'variant'"),
        ({"attention": 3}, "a name or a mapping with 'variant', not 3"),
        ({"n_heads": 5}, "d_model=12 is not a multiple of n_heads=5; give d_head as well"),
        ({"n_layers": 0}, "n_layers"),
        ({"d_vocab": 0}, "d_vocab"),
        ({"dropout": 1.0}, "dropout"),
        ({"norm": "rmsnorm"}, "'layernorm' or 'none'"),
        ({"positions": "rotary"}, "'learned' or 'none'"),
        ({"activation": "silu"}, "'gelu' or 'relu'"),
        ({"heads": {"main": 3}}, "'main' cannot name an extra head"),
        ({"heads": {"keys": 3}}, "'keys' cannot name an extra head"),
        ({"heads": {"a hint": 3}}, "'a hint' cannot name an extra head"),
        ({"heads": {"hint": 0}}, "greater than or equal to 1"),
        ({"width": 3}, "width"),
    ],
)
def test_a_wrong_shape_is_refused_when_the_config_is_made(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DecoderConfig(**{**SMALL, **wrong})


def test_a_config_is_frozen_plain_data_that_survives_json() -> None:
    config = DecoderConfig(**SMALL, attention=["chacal", {"variant": "tempered", "n": 5}], heads={"hint": 3})
    assert (config.d_head, config.d_mlp) == (4, 48)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 3  # type: ignore[misc]
    assert DecoderConfig(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_every_entry_of_the_table_of_variants_carries_its_own_name() -> None:
    assert all(kind.name == name for name, kind in ATTENTION.items())
