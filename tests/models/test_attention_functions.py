"""The variants as attention functions of Transformers: in every family, with padding, with a cache."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, GPT2LMHeadModel, PreTrainedModel, StaticCache

from tests.models.tiny_models import SUPPORTED, tiny, tokens
from workbench.models import Decoder, DecoderConfig
from workbench.models.pretrained import attention_of, set_attention

VARIANTS = ("chacal", "tempered", "tempered_chacal")
ALL_FORMS: tuple[Any, ...] = (
    *VARIANTS,
    {"variant": "chacal", "form": "eq7"},
    {"variant": "chacal", "diagonal": True},
)
every_family = pytest.mark.parametrize("family", SUPPORTED)
every_form = pytest.mark.parametrize("attention", ALL_FORMS, ids=str)


@torch.no_grad()
def logits(model: PreTrainedModel, ids: Tensor, **more: Any) -> Tensor:
    return model(ids, **more).logits


@every_family
def test_gamma_0_leaves_the_logits_of_every_family_unchanged(family: str) -> None:
    model, ids = tiny(family), tokens()
    before = logits(model, ids)
    set_attention(model, {"variant": "chacal", "gamma": 0})
    assert (logits(model, ids) - before).abs().max() < 1e-5
    set_attention(model, {"variant": "chacal", "gamma": 0.9})
    assert (logits(model, ids) - before).abs().max() > 1e-2


@every_family
def test_tempering_of_one_length_by_its_own_logarithm_leaves_the_logits_unchanged(family: str) -> None:
    model, ids = tiny(family), tokens()
    before = logits(model, ids)
    set_attention(model, {"variant": "tempered", "n": 3, "beta": 1 / torch.log(torch.tensor(3.0)).item()})
    assert (logits(model, ids) - before).abs().max() < 1e-5


@every_family
@pytest.mark.parametrize("name", VARIANTS)
def test_the_future_never_changes_an_earlier_logit(family: str, name: str) -> None:
    """A registered attention function without a registered mask would see it."""
    model, ids = tiny(family), tokens()
    model.set_attn_implementation(name)
    changed = ids.clone()
    changed[:, 7:] = tokens(seed=1)[:, 7:]
    first, second = logits(model, ids), logits(model, changed)
    assert torch.equal(first[:, :7], second[:, :7])
    assert not torch.allclose(first[:, 7:], second[:, 7:])


def gpt2_as_decoder(model: GPT2LMHeadModel, attention: Any) -> Decoder:
    """Our decoder with the weights of a GPT-2."""
    config, transformer = model.config, model.transformer
    decoder = Decoder(
        DecoderConfig(
            n_layers=config.n_layer,
            d_model=config.n_embd,
            n_heads=config.n_head,
            d_vocab=config.vocab_size,
            n_ctx=config.n_positions,
            attention=attention,
            activation="gelu_tanh",
            tied=True,
        )
    ).eval()
    decoder.to(model.dtype)
    with torch.no_grad():
        decoder.token_embedding.weight.copy_(transformer.wte.weight)
        decoder.position_embedding.weight.copy_(transformer.wpe.weight)  # type: ignore[union-attr]
        decoder.final_norm.load_state_dict(transformer.ln_f.state_dict())
        for ours, theirs in zip(decoder.layers, transformer.h, strict=True):
            ours.ln1.load_state_dict(theirs.ln_1.state_dict())
            ours.ln2.load_state_dict(theirs.ln_2.state_dict())
            for linear, weight, bias in zip(
                (ours.attn.q, ours.attn.k, ours.attn.v),
                theirs.attn.c_attn.weight.T.chunk(3),
                theirs.attn.c_attn.bias.chunk(3),
                strict=True,
            ):
                linear.weight.copy_(weight)
                linear.bias.copy_(bias)
            for linear, conv in (
                (ours.attn.o, theirs.attn.c_proj),
                (ours.mlp.fc_in, theirs.mlp.c_fc),
                (ours.mlp.fc_out, theirs.mlp.c_proj),
            ):
                linear.weight.copy_(conv.weight.T)
                linear.bias.copy_(conv.bias)
    return decoder


@every_form
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
def test_a_gpt2_computes_what_our_decoder_does_with_its_weights(
    attention: Any, dtype: torch.dtype, tolerance: float
) -> None:
    model, ids = tiny("gpt2").to(dtype), tokens(length=32)
    set_attention(model, attention)
    ours = gpt2_as_decoder(model, attention)
    with torch.no_grad():
        assert (logits(model, ids) - ours(ids)).abs().max() < tolerance


def test_layers_of_their_own_are_those_of_our_decoder_too() -> None:
    model, ids = tiny("gpt2"), tokens()
    set_attention(model, {"variant": "chacal", "gamma": 0.7}, layers=[1])
    ours = gpt2_as_decoder(model, ["standard", {"variant": "chacal", "gamma": 0.7}])
    with torch.no_grad():
        assert (logits(model, ids) - ours(ids)).abs().max() < 1e-5
    assert [layer.name for layer in attention_of(model)] == ["standard", "chacal"]
    set_attention(model, "tempered", layers=[0])
    assert [layer.name for layer in attention_of(model)] == ["tempered", "chacal"]
    assert attention_of(model)[1].gamma == 0.7


@every_family
@every_form
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_no_token(family: str, attention: Any, side: str) -> None:
    model, ids = tiny(family), tokens()
    set_attention(model, attention)
    lengths = (12, 7, 9)
    padded, mask = torch.zeros_like(ids), torch.zeros_like(ids)
    for row, length in enumerate(lengths):
        where = slice(12 - length, 12) if side == "left" else slice(0, length)
        padded[row, where], mask[row, where] = ids[row, :length], 1
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    batched = logits(model, padded, attention_mask=mask, position_ids=positions)
    for row, length in enumerate(lengths):
        alone = logits(model, ids[row : row + 1, :length])
        assert (batched[row][mask[row] > 0] - alone[0]).abs().max() < 1e-5


@every_family
@every_form
def test_cached_steps_equal_the_whole_forward_pass(family: str, attention: Any) -> None:
    """A prompt, a piece of three tokens, then one at a time: by one cache, at a first call and at later ones."""
    model, ids = tiny(family), tokens()
    set_attention(model, attention)
    whole = logits(copy.deepcopy(model), ids)
    for _ in range(2):
        cache, parts = DynamicCache(config=model.config), []
        for piece in ids.split([5, 3, 1, 1, 1, 1], dim=1):
            parts.append(logits(model, piece, past_key_values=cache))
        assert (torch.cat(parts, 1) - whole).abs().max() < 1e-5


@every_family
@pytest.mark.parametrize("name", VARIANTS)
def test_cached_steps_are_right_from_the_first_call_of_a_layer_on(family: str, name: str) -> None:
    """Nothing but Transformers' own way of choosing an attention was called before."""
    model, ids = tiny(family), tokens()
    model.set_attn_implementation(name)
    cache = DynamicCache()
    parts = [logits(model, piece, past_key_values=cache) for piece in ids.split([6, 1, 1, 4], dim=1)]
    assert (torch.cat(parts, 1) - logits(model, ids)).abs().max() < 1e-5


def test_two_caches_do_not_mix() -> None:
    """Not one after the other in one thread, nor in two threads at once."""
    model = tiny("llama")
    set_attention(model, "chacal")
    texts, caches = (tokens(seed=1), tokens(seed=2)), (DynamicCache(), DynamicCache())
    whole = [logits(model, ids) for ids in texts]
    parts: list[list[Tensor]] = [[], []]
    for at in range(12):
        for i in range(2):
            parts[i].append(logits(model, texts[i][:, at : at + 1], past_key_values=caches[i]))
    with ThreadPoolExecutor(4) as pool:
        written = list(pool.map(lambda i: model.generate(texts[i % 2], max_new_tokens=8, do_sample=False), range(8)))
    for i in range(2):
        assert (torch.cat(parts[i], 1) - whole[i]).abs().max() < 1e-5
    for i, result in enumerate(written):
        assert torch.equal(result, model.generate(texts[i % 2], max_new_tokens=8, do_sample=False))


def test_gradient_checkpoints_change_no_gradient() -> None:
    model, ids = tiny("llama"), tokens()
    set_attention(model, "chacal")
    model(ids).logits.square().mean().backward()
    plain = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    model.train().activation_checkpointing_enable()
    model(ids).logits.square().mean().backward()
    for weight, expected in zip(model.parameters(), plain, strict=True):
        torch.testing.assert_close(weight.grad, expected, atol=1e-6, rtol=1e-4)


@every_family
@every_form
def test_generation_of_prompts_padded_on_the_left_equals_the_whole_forward_pass(family: str, attention: Any) -> None:
    model, ids = tiny(family), tokens()
    set_attention(model, attention)
    padded, mask = ids.clone(), torch.ones_like(ids)
    for row, length in enumerate((12, 7, 9)):
        padded[row, : 12 - length] = mask[row, : 12 - length] = 0
    result = model.generate(
        padded,
        attention_mask=mask,
        max_new_tokens=6,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    written = torch.stack(result.logits, 1)
    for row, length in enumerate((12, 7, 9)):
        whole = logits(model, result.sequences[row : row + 1, 12 - length :])
        assert (written[row] - whole[0, length - 1 : -1]).abs().max() < 1e-5
        assert torch.equal(result.sequences[row, 12:], whole[0, length - 1 : -1].argmax(-1))


@every_form
def test_beams_take_their_memory_along(attention: Any) -> None:
    """The score of each beam is the sum of the log-probabilities of a forward pass without a cache."""
    model, ids = tiny("llama"), tokens(2)
    set_attention(model, attention)
    found = model.generate(
        ids,
        max_new_tokens=5,
        num_beams=4,
        num_return_sequences=4,
        do_sample=False,
        length_penalty=0.0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    log_probs = logits(model, found.sequences).log_softmax(-1)[:, 11:-1]
    chosen = log_probs.gather(-1, found.sequences[:, 12:, None]).sum((1, 2))
    torch.testing.assert_close(found.sequences_scores, chosen, atol=1e-4, rtol=0)


@every_form
def test_a_cut_cache_goes_on_from_where_it_was_cut(attention: Any) -> None:
    model, ids = tiny("qwen3"), tokens()
    set_attention(model, attention)
    whole, cache = logits(model, ids), DynamicCache(config=model.config)
    logits(model, ids[:, :8], past_key_values=cache)
    cache.crop(-3)
    assert (logits(model, ids[:, 5:], past_key_values=cache) - whole[:, 5:]).abs().max() < 1e-5


def test_padded_prompts_go_on_by_several_tokens() -> None:
    model, ids = tiny("llama"), tokens()
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    for attention in ALL_FORMS:
        set_attention(model, attention)
        positions, cache, parts = (mask.cumsum(-1) - 1).clamp(min=0), DynamicCache(config=model.config), []
        whole = logits(model, ids, attention_mask=mask, position_ids=positions)
        for start, end in ((0, 6), (6, 9), (9, 12)):
            given = {"attention_mask": mask[:, :end], "position_ids": positions[:, start:end]}
            parts.append(logits(model, ids[:, start:end], past_key_values=cache, **given))
        assert (torch.cat(parts, 1) - whole)[mask > 0].abs().max() < 1e-5


@every_family
def test_gradients_reach_every_weight(family: str) -> None:
    model, ids = tiny(family).double(), tokens(2, 8)
    model.set_attn_implementation("chacal")

    def loss(of: PreTrainedModel) -> Tensor:
        return torch.nn.functional.cross_entropy(of(ids).logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    loss(model).backward()
    assert all(weight.grad is not None for weight in model.parameters())
    weight = model.get_input_embeddings().weight  # RMSNorm computes in float32, whatever its input
    slope, direction = weight.grad.clone(), torch.randn_like(weight)
    values = []
    for step in (1e-3, -1e-3):
        moved = copy.deepcopy(model)
        with torch.no_grad():
            moved.get_input_embeddings().weight += step * direction
            values.append(loss(moved))
    torch.testing.assert_close((values[0] - values[1]) / 2e-3, (slope * direction).sum(), rtol=3e-3, atol=1e-6)


def test_half_precision_stays_near_single() -> None:
    model, ids = tiny("llama"), tokens()
    model.set_attn_implementation("chacal")
    single = logits(model, ids)
    half = logits(model.bfloat16(), ids)
    assert half.dtype == torch.bfloat16 and (half - single).abs().max() < 0.05 * single.abs().max()


def test_what_the_layers_have_is_saved_with_the_model(tmp_path: Any) -> None:
    model, ids = tiny("llama"), tokens()
    set_attention(model, ["standard", {"variant": "chacal", "gamma": 0.8}])
    model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    again.set_attn_implementation("workbench")
    assert torch.equal(logits(again, ids), logits(model, ids))


@pytest.mark.parametrize("family", ["mistral", "qwen2", "gemma3"])
def test_sliding_windows_are_refused(family: str) -> None:
    more = {
        "mistral": {"sliding_window": 4},
        "qwen2": {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0},
        "gemma3": {"sliding_window": 4},
    }
    model = tiny(family, **more[family])
    with pytest.raises(ValueError, match="layer 0 has a sliding window"):
        set_attention(model, "chacal")
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("chacal")
    with pytest.raises(ValueError, match="sliding window"):
        logits(model, tokens())


def test_layers_without_a_window_may_change_beside_those_with_one() -> None:
    model, ids = tiny("gemma3", sliding_window=4), tokens()
    before = logits(model, ids)
    set_attention(model, {"variant": "chacal", "gamma": 0}, layers=[1])
    assert (logits(model, ids) - before).abs().max() < 1e-5
    set_attention(model, "chacal", layers=[1])
    whole, cache = logits(model, ids), DynamicCache(config=model.config)
    parts = [logits(model, piece, past_key_values=cache) for piece in ids.split(1, dim=1)]
    assert (torch.cat(parts, 1) - whole).abs().max() < 1e-5


REFUSALS: dict[str, Any] = {
    "capped scores": lambda: (tiny("gemma2", layer_types=["full_attention"] * 2), {}),
    "a cache that grows": lambda: (
        model := tiny("llama"),
        {"past_key_values": StaticCache(config=model.config, max_cache_len=20)},
    ),
    "a mask may hide padding": lambda: (
        tiny("llama"),
        {"position_ids": torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]]), "use_cache": False},
    ),
    "a true-or-false mask": lambda: (tiny("llama"), {"attention_mask": torch.zeros(1, 1, 12, 12)}),
}


@pytest.mark.parametrize("words", REFUSALS)
@pytest.mark.parametrize("name", VARIANTS)
def test_what_a_variant_cannot_do_is_refused(words: str, name: str) -> None:
    model, given = REFUSALS[words]()
    model.set_attn_implementation(name)
    with pytest.raises(ValueError, match=words):
        logits(model, tokens(1), **given)


@every_family
@pytest.mark.parametrize("every_layer", [True, False])
def test_a_pattern_that_transformers_cannot_have_is_refused_not_left_out(family: str, every_layer: bool) -> None:
    model, ids = tiny(family), tokens()
    model.set_attn_implementation("chacal") if every_layer else set_attention(model, "chacal", layers=[1])
    model(ids)
    for call in (model, partial(model.generate, max_new_tokens=2, do_sample=False, return_dict_in_generate=True)):
        with pytest.raises(ValueError, match=r"returns no pattern of chacal attention .* has it as hook_pattern"):
            call(ids, output_attentions=True)


def test_dropout_of_the_pattern_is_refused_in_training_alone() -> None:
    model = tiny("gpt2", attn_pdrop=0.1)
    model.set_attn_implementation("chacal")
    logits(model, tokens())
    with pytest.raises(ValueError, match="attn_pdrop"):
        logits(model.train(), tokens())


def test_a_cache_that_another_attention_filled_is_refused() -> None:
    model, cache = tiny("llama"), DynamicCache()
    logits(model, tokens(), past_key_values=cache)
    model.set_attn_implementation("chacal")
    with pytest.raises(ValueError, match="goes on from 12 cached tokens, and its attention variant kept"):
        logits(model, tokens()[:, :1], past_key_values=cache)


def test_a_cache_that_was_filled_with_gradients_is_refused() -> None:
    model, cache, ids = tiny("llama"), DynamicCache(), tokens()
    model.set_attn_implementation("chacal")
    model(ids, past_key_values=cache)
    with pytest.raises(ValueError, match="without gradients"):
        logits(model, ids[:, :1], past_key_values=cache)
    with pytest.raises(ValueError, match=r"torch.no_grad"):
        cache = DynamicCache()
        logits(model, ids, past_key_values=cache)
        model(ids[:, :1], past_key_values=cache)


def test_wrong_settings_are_refused_and_change_nothing() -> None:
    model = tiny("llama")
    for attention, layers, words in (
        ("chacle", None, "did you mean 'chacal'"),
        ({"variant": "chacal", "gamma": 1}, None, "gamma"),
        (["chacal"] * 3, None, "names 3 layers, but n_layers is 2"),
        ("chacal", [2], "there is no layer 2"),
        ({"variant": "tempered", "n": "input", "delimiters": [3]}, None, "needs the tokens"),
    ):
        with pytest.raises(ValueError, match=words):
            set_attention(model, attention, layers)
    assert model.config._attn_implementation == "sdpa"
    model.set_attn_implementation("workbench")
    with pytest.raises(ValueError, match="set_attention"):
        logits(model, tokens())
