"""The decoder against PyTorch's own layers, its options, its generation, and its configuration's errors."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, get_args, get_type_hints

import pytest
import torch
from torch import Tensor, nn

from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.norms_and_mlps import NORMS
from workbench.models.positions import SinusoidalPositions
from workbench.tasks import make
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


def gpt2_gelu(x: Tensor) -> Tensor:
    """As OpenAI's code has it."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def ragged(model: Decoder) -> Any:
    """A cache of three prompts of different lengths."""
    cache = model.cache(3)
    model.extend(tokens(2), cache, lengths=torch.tensor([1, 2, 1]))
    return cache


def tokens(pos: int = 6) -> Tensor:
    return torch.randint(0, 7, (3, pos), generator=generator(2))


ACTIVATIONS = {"gelu": nn.functional.gelu, "gelu_tanh": gpt2_gelu, "relu": nn.functional.relu}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_standard_decoder_is_a_stack_of_pytorchs_pre_norm_layers(activation: str) -> None:
    model = decoder(activation=activation, d_mlp=20, unembed_bias=True)
    x = model.token_embedding(tokens()) + model.position_embedding.weight[:6]
    for layer in model.layers:
        nonlinearity = ACTIVATIONS[activation]
        oracle = nn.TransformerEncoderLayer(12, 3, 20, 0.0, nonlinearity, batch_first=True, norm_first=True).eval()
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


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary"])
def test_only_positions_tell_the_order_of_earlier_tokens(positions: str) -> None:
    """With one layer: deeper, the causal mask alone gives order away."""
    swapped = tokens()[:, [1, 0, 2, 3, 4, 5]]
    without, having = (decoder(n_layers=1, positions=one) for one in ("none", positions))
    torch.testing.assert_close(without(swapped)[:, -1], without(tokens())[:, -1], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(having(swapped)[:, -1], having(tokens())[:, -1], atol=1e-2 * (positions == "learned"))


@pytest.mark.parametrize("d_model", [7, 12])
def test_sinusoidal_positions_are_those_of_the_paper_at_the_size_of_our_embeddings(d_model: int) -> None:
    rows = SinusoidalPositions(50, d_model, 0.02)(torch.arange(50))
    for p, coordinate in [(0, 0), (0, 1), (1, 0), (3, 5), (49, 6), (17, 2)]:
        angle = p / 10_000 ** (2 * (coordinate // 2) / d_model)
        wanted = math.cos(angle) if coordinate % 2 else math.sin(angle)
        assert rows[p, coordinate].item() == pytest.approx(0.02 * wanted, abs=1e-7)
    model = decoder(positions="sinusoidal", d_model=d_model, d_head=4)
    at_first = Decoder(model.config, generator(0)).token_embedding.weight.std().item()
    assert at_first == pytest.approx(0.02, rel=0.3)
    final = dict(model.walk(tokens()))["blocks.0.hook_resid_pre"]
    torch.testing.assert_close(final, model.token_embedding(tokens()) + rows[:6])


def test_sinusoidal_positions_are_neither_learned_nor_stored_and_do_not_depend_on_the_context() -> None:
    short, long = (
        Decoder(DecoderConfig(**{**SMALL, "n_ctx": n_ctx}, positions="sinusoidal"), generator(0))
        for n_ctx in (8, 2**31)
    )
    assert short.config.n_parameters == long.config.n_parameters == sum(p.numel() for p in short.parameters())
    assert not any("position" in name for name in short.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(short.parameters(), long.parameters(), strict=True))
    assert torch.equal(short(tokens()), long(tokens()))
    long.load_state_dict(short.double().state_dict())
    assert short(tokens()).dtype == torch.float64
    assert short.bfloat16()(tokens()).dtype == torch.bfloat16
    shifted = short.float().position_embedding(torch.tensor([300]))  # at half precision positions stay told apart
    assert not torch.allclose(short.bfloat16().position_embedding(torch.tensor([301])).float(), shifted, atol=1e-3)


@pytest.mark.parametrize(("n_layers", "millions"), [(1, 3.28), (2, 6.44), (3, 9.59), (4, 12.74), (5, 15.89)])
def test_with_tied_embeddings_models_have_the_sizes_of_the_chacal_papers_table_1(
    n_layers: int, millions: float
) -> None:
    """Pointer chains of n=128, k=8 (§5.1.1), width 512 and 2048, 8 heads (Table 4); the table says 3.3 to 15.9 M."""
    task = make("pointer_chain", n=128, k=8)
    shape = {"d_model": 512, "d_mlp": 2048, "n_heads": 8, "d_vocab": len(task.vocabulary), "n_ctx": task.n_ctx}
    config = DecoderConfig(n_layers=n_layers, **shape, tied=True)
    with torch.device("meta"):
        made = sum(parameter.numel() for parameter in Decoder(config).parameters())
    assert config.n_parameters == made and round(made / 1e6, 2) == millions
    untied = dataclasses.replace(config, tied=False).n_parameters
    assert untied - made == 128 * 512 and (n_layers < 4 or round(untied / 1e6, 1) > round(millions, 1))


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
        ({"n_kv_heads": 2}, "n_heads=3 is not a multiple of n_kv_heads=2"),
        ({"n_kv_heads": 6}, "n_heads=3 is not a multiple of n_kv_heads=6"),
        ({"n_layers": 0}, "n_layers"),
        ({"d_vocab": 0}, "d_vocab"),
        ({"dropout": 1.0}, "dropout"),
        ({"norm": "batchnorm"}, "'layernorm', 'rmsnorm' or 'none'"),
        ({"positions": "alibi"}, "'learned', 'sinusoidal', 'rotary' or 'none'"),
        ({"positions": "rotary", "d_head": 5}, "d_head is an even number, not 5"),
        ({"activation": "silu"}, "'gelu', 'gelu_tanh', 'relu' or 'swiglu'"),
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


def test_rms_norm_is_that_of_llama() -> None:
    """Also in a decoder: every norm of it, the last one too."""
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    theirs, ours = LlamaRMSNorm(12, eps=1e-6), decoder(norm="rmsnorm").final_norm
    torch.nn.init.normal_(theirs.weight)
    ours.load_state_dict(theirs.state_dict())
    x = 1e-3 * torch.randn(3, 5, 12)
    torch.testing.assert_close(ours(x), theirs(x))
    norms = [module for module in decoder(norm="rmsnorm").modules() if isinstance(module, torch.nn.RMSNorm)]
    assert len(norms) == 2 * decoder().config.n_layers + 1


def test_every_norm_can_be_named_in_a_config_and_counts_what_it_learns() -> None:
    named = get_args(get_type_hints(DecoderConfig)["norm"])
    assert named == tuple(NORMS)
    for name in named:
        model = decoder(norm=name)
        assert model.config.n_parameters == sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize(
    ("initial_std", "embedding", "unembedding", "rest"),
    [
        (0.5, 0.5, 0.5, 0.5),
        ({"embedding": 1.0}, 1.0, 0.02, 0.02),
        ({"rest": "fan_in", "unembedding": 0.05}, 0.02, 0.05, 1 / 8),
    ],
)
def test_initial_weights_are_as_large_as_asked(
    initial_std: Any, embedding: float, unembedding: float, rest: float
) -> None:
    shape = {**SMALL, "d_model": 64, "n_heads": 4, "d_vocab": 300, "n_ctx": 200, "heads": {"hint": 300}}
    model = Decoder(DecoderConfig(**shape, initial_std=initial_std), generator(3))
    layer = model.layers[0]
    n_inputs = 256**-0.5 / 64**-0.5 if rest == 1 / 8 else 1  # the MLP's output has four times the inputs
    expected = {
        model.token_embedding: embedding,
        model.position_embedding: embedding,
        model.unembedding: unembedding,
        model.extra_heads["hint"]: unembedding,
        layer.attn.q: rest,
        layer.attn.o: rest / 2,  # √(2 · 2 layers)
        layer.mlp.fc_out: n_inputs * rest / 2,
    }
    for module, std in expected.items():
        assert module.weight.std().item() == pytest.approx(std, rel=0.05)


def test_one_fan_in_for_all_is_refused_where_there_is_no_map() -> None:
    with pytest.raises(ValueError, match="embedding"):
        DecoderConfig(**SMALL, initial_std="fan_in")
    for wrong in (True, {"rest": True}, -1.0, {"rest": "fan_out"}, {"scale": 1.0}):
        with pytest.raises(ValueError):
            DecoderConfig(**SMALL, initial_std=wrong)


def test_sinusoidal_positions_are_as_large_as_the_embedding() -> None:
    model = Decoder(DecoderConfig(**SMALL, positions="sinusoidal", initial_std={"embedding": 0.5}), generator(0))
    assert model.position_embedding(torch.tensor([0]))[0, 1].item() == 0.5  # cos 0
