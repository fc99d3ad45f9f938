"""The hooked copy: TransformerLens's names, shapes and tools on every variant, and weight processing that is exact."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformer_lens import patching
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.tools.analysis import EdgeAttributionConfig, attribution_patch, direct_logit_attribution

import workbench
from tests.models.toys import TOYS, HalfSigmoidAttention, SigmoidAttention
from workbench.models import Decoder, DecoderConfig
from workbench.models.attention import ATTENTION
from workbench.models.attention.standard import StandardAttention
from workbench.models.hooked import HookedDecoder, hook, hook_alike
from workbench.models.hooked_decoder import ALWAYS, GENERATING, OF_WORDS
from workbench.models.norms_and_mlps import MLPS
from workbench.models.positions import POSITIONS

MIXTURE = ["standard", {"variant": "chacal", "gamma": 0.8}]
VARIANTS = ["standard", "tempered", "chacal", {"variant": "chacal", "form": "eq7", "diagonal": True}, MIXTURE]
NORMS = ["layernorm", "rmsnorm", "none"]
each_variant = pytest.mark.parametrize("attention", VARIANTS, ids=str)
each_norm = pytest.mark.parametrize("norm", NORMS)


def decoder(dtype: torch.dtype = torch.float32, **shape: Any) -> Decoder:
    """A small decoder with all its weights, biases too, far from their gentle start."""
    small = {"n_layers": 2, "d_model": 12, "n_heads": 2, "d_head": 5, "d_mlp": 16, "d_vocab": 11, "n_ctx": 8}
    g = torch.Generator().manual_seed(1)
    model = Decoder(DecoderConfig(**{**small, **shape}), g).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=g).to(dtype)
    return model.eval()


def tokens(batch: int = 3, pos: int = 6, seed: int = 2) -> Tensor:
    return torch.randint(0, 11, (batch, pos), generator=torch.Generator().manual_seed(seed))


def log_probs(model: Any) -> Tensor:
    return model(tokens()).log_softmax(-1)


def assert_close(a: Tensor, b: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=1e-5)


@st.composite
def shapes(draw: st.DrawFn) -> dict[str, Any]:
    """Any shape, and often one with two widths alike: that is where a tool that guesses axes from widths goes wrong."""
    d_model = draw(st.integers(2, 12))
    width = st.one_of(st.just(d_model), st.integers(1, 14))
    positions = draw(st.sampled_from(list(POSITIONS)))
    groups, kv_heads = draw(st.sampled_from([(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1)]))
    return {
        "n_layers": 2,
        "attention": draw(st.lists(st.sampled_from(["standard", "tempered", "chacal"]), min_size=2, max_size=2)),
        "d_model": d_model,
        "n_heads": groups * kv_heads,
        "n_kv_heads": kv_heads,
        "d_head": 2 * draw(st.integers(1, 7)) if positions == "rotary" else draw(width),
        "d_mlp": draw(st.one_of(st.just(0), width)),
        "d_vocab": max(11, draw(width)),
        "positions": positions,
        "activation": draw(st.sampled_from(list(MLPS))),
        "norm": draw(st.sampled_from(NORMS)),
        "tied": draw(st.booleans()),
        "unembed_bias": draw(st.booleans()),
        "heads": draw(st.sampled_from([{}, {"hint": 3}])),
        "dropout": draw(st.sampled_from([0.0, 0.5])),
    }


@settings(max_examples=40, deadline=None)
@given(shapes())
def test_any_shape_is_hooked_and_processed_without_changing_what_it_computes(shape: dict[str, Any]) -> None:
    model = decoder(torch.float64, **shape)
    hooked = hook(model)
    assert_close(hooked(tokens()), model(tokens()), atol=1e-9)
    hooked.enable_compatibility_mode(fold_value_biases=True)
    assert_close(log_probs(hooked), log_probs(model), atol=1e-9)


def test_hooking_gives_a_transformer_lens_bridge_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hooked = workbench.hook(decoder())
        hooked.run_with_cache(tokens())
        hooked.enable_compatibility_mode()
    assert isinstance(hooked, TransformerBridge)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("variant", TOYS)
def test_attention_that_is_no_softmax_is_hooked_as_it_is(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTION, variant, TOYS[variant])
    model = decoder(attention=variant)
    hooked = hook(model)
    logits, cache = hooked.run_with_cache(tokens())
    assert_close(logits, model(tokens()))
    half = hooked.run_with_hooks(
        tokens(), fwd_hooks=[("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern / 2)]
    )
    assert not torch.allclose(half, logits, atol=1e-3)
    if variant == "sink":
        assert (cache["blocks.0.attn.hook_pattern"].sum(-1) < 1).all()


def test_a_variant_whose_paths_are_two_models_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTION, "half_sigmoid", HalfSigmoidAttention)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        with pytest.raises(ValueError, match=r"does not compute what the model does.*it has: standard; half_sigmoid"):
            hook(decoder(dtype, attention=["standard", "half_sigmoid"]))
    assert hook(decoder(torch.bfloat16, attention=["standard", "chacal"])).cfg.n_layers == 2


def test_a_fast_path_that_differs_far_from_the_start_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(StandardAttention):
        name = "late"

        def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return super().mix(q, k, v) + (torch.arange(q.shape[-2]) >= 20)[:, None] * 0.01

    monkeypatch.setitem(ATTENTION, "late", Late)
    assert hook(decoder(attention="late", n_ctx=16)).cfg.n_ctx == 16
    with pytest.raises(ValueError, match="does not compute what the model does"):
        hook(decoder(attention="late", n_ctx=48))


def test_weights_so_sharp_that_rounding_decides_are_no_other_model() -> None:
    model = decoder(attention="chacal", n_ctx=32)
    with torch.no_grad():
        for layer in model.layers:
            layer.attn.q.weight *= 3e4
    assert hook(model).cfg.n_layers == 2
    with torch.no_grad():
        model.layers[0].mlp.fc_in.weight.fill_(torch.nan)
    assert hook(model)(tokens()).isnan().all()


def test_folding_refuses_a_variant_that_only_says_it_passes_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    class Boast(SigmoidAttention):
        name, passes_constants = "boast", True

    monkeypatch.setitem(ATTENTION, "boast", Boast)
    monkeypatch.setitem(ATTENTION, "sigmoid", SigmoidAttention)
    hooked = hook(decoder(attention=["standard", "boast"]))
    before = hooked(tokens())
    with pytest.raises(ValueError, match="'boast' says that it passes constants on, but rows"):
        hooked.process_weights()
    assert torch.equal(hooked(tokens()), before)
    honest = decoder(attention="sigmoid")
    hooked = hook(honest)
    hooked.enable_compatibility_mode()
    assert_close(log_probs(hooked), log_probs(honest))


def test_hooking_leaves_the_model_as_it_was_and_free_to_train() -> None:
    model = decoder(dropout=0.3).train()
    before = {name: parameter.clone() for name, parameter in model.state_dict().items()}
    hooked = hook(model)
    hooked.enable_compatibility_mode()
    assert model.training and not any(module.training for module in hooked.modules())
    assert all(torch.equal(model.state_dict()[name], parameter) for name, parameter in before.items())
    logits = hooked(tokens())
    torch.optim.SGD(model.parameters(), lr=1.0).step(lambda: model(tokens()).square().sum().backward())
    assert not torch.equal(model.state_dict()["unembedding.weight"], before["unembedding.weight"])
    assert torch.equal(hooked(tokens()), logits)


@each_norm
def test_hooked_activations_have_the_names_and_values_that_the_model_keeps(norm: str) -> None:
    model = decoder(norm=norm)
    _, kept = model(tokens(), keep=model.activation_names)
    _, cache = hook(model).run_with_cache(tokens(), names_filter=list(kept))
    for name, activation in kept.items():
        assert_close(cache[name], activation)


@each_variant
def test_hook_points_have_transformer_lens_shapes(attention: Any) -> None:
    hooked = hook(decoder(attention=attention))
    hooked.set_use_attn_result(True)
    _, cache = hooked.run_with_cache(tokens())
    expected = {
        "hook_embed": (3, 6, 12),
        "hook_pos_embed": (3, 6, 12),
        "blocks.1.hook_resid_pre": (3, 6, 12),
        "blocks.1.hook_resid_mid": (3, 6, 12),
        "blocks.1.hook_resid_post": (3, 6, 12),
        "blocks.1.hook_attn_out": (3, 6, 12),
        "blocks.1.hook_mlp_out": (3, 6, 12),
        "blocks.1.attn.hook_q": (3, 6, 2, 5),
        "blocks.1.attn.hook_k": (3, 6, 2, 5),
        "blocks.1.attn.hook_v": (3, 6, 2, 5),
        "blocks.1.attn.hook_z": (3, 6, 2, 5),
        "blocks.1.attn.hook_result": (3, 6, 2, 12),
        "blocks.1.attn.hook_attn_scores": (3, 2, 6, 6),
        "blocks.1.attn.hook_pattern": (3, 2, 6, 6),
        "blocks.1.mlp.hook_pre": (3, 6, 16),
        "blocks.1.mlp.hook_post": (3, 6, 16),
    }
    assert {name: tuple(cache[name].shape) for name in expected} == expected


def test_config_and_weights_read_as_transformer_lens_names_them() -> None:
    model = decoder(d_head=14, activation="relu")  # wider than the model: nothing to guess from
    hooked, layer = hook(model), model.layers[1]
    names = ["d_model", "n_heads", "d_head", "n_layers", "d_vocab", "n_ctx", "d_mlp", "act_fn", "normalization_type"]
    assert [getattr(hooked.cfg, name) for name in names] == [12, 2, 14, 2, 11, 8, 16, "relu", "LN"]
    assert hook(decoder(norm="none")).cfg.normalization_type is None
    assert hook(decoder(activation="gelu_tanh")).cfg.act_fn == "gelu_new"
    assert torch.equal(hooked.W_E, model.token_embedding.weight)
    assert torch.equal(hooked.W_U, model.unembedding.weight.T)
    assert torch.equal(hooked.W_pos, model.position_embedding.weight)
    assert torch.equal(hooked.W_Q[1], layer.attn.q.weight.view(2, 14, 12).mT)
    assert torch.equal(hooked.W_O[1], layer.attn.o.weight.T.view(2, 14, 12))
    assert torch.equal(hooked.b_V[1], layer.attn.v.bias.view(2, 14))
    assert_close(hooked.OV[1, 0].AB, hooked.W_V[1, 0] @ hooked.W_O[1, 0])


def test_sinusoidal_positions_are_seen_as_positions_and_centred_with_the_other_weights() -> None:
    model = decoder(positions="sinusoidal", norm="layernorm")
    hooked = hook(model)
    _, cache = hooked.run_with_cache(tokens())
    rows = model.position_embedding(torch.arange(8))
    assert torch.equal(hooked.W_pos, rows)
    assert_close(cache["hook_pos_embed"], rows[:6].expand(3, 6, 12))
    assert_close(cache["hook_embed"] + cache["hook_pos_embed"], cache["blocks.0.hook_resid_pre"])
    hooked.enable_compatibility_mode()
    _, processed = hooked.run_with_cache(tokens())
    assert_close(processed["hook_pos_embed"].mean(-1), torch.zeros(3, 6))
    assert_close(hooked.W_pos.mean(-1), torch.zeros(8))
    assert torch.equal(model.position_embedding(torch.arange(8)), rows)
    with pytest.raises(ValueError, match="a table of 1,000,000,000 positions needs at least"):
        hook(decoder(positions="sinusoidal", n_ctx=10**9, d_model=64))


@each_variant
def test_scores_are_what_the_softmax_takes_and_hold_the_temperature(attention: Any) -> None:
    model = decoder(attention=attention)
    _, cache = hook(model).run_with_cache(tokens())
    for layer in range(2):
        q, k = (cache[f"blocks.{layer}.attn.hook_{name}"].transpose(1, 2) for name in "qk")
        scores = cache[f"blocks.{layer}.attn.hook_attn_scores"]
        plain = (q @ k.mT / 5**0.5).masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
        if attention == "tempered":
            plain *= model.layers[layer].attn.variant.beta * torch.arange(1, 7).log().unsqueeze(-1)
            plain = plain.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
        assert_close(scores, plain)
        assert_close(scores.softmax(-1), cache[f"blocks.{layer}.attn.hook_pattern"])


def chain_pattern(pattern: Tensor, hook: Any = None) -> Tensor:
    """Each position looks only at the one before it, the first at itself."""
    edited = torch.zeros_like(pattern)
    edited[..., 0, 0] = 1
    for query in range(1, pattern.shape[-1]):
        edited[..., query, query - 1] = 1
    return edited


def test_an_edited_pattern_changes_what_chacal_solves() -> None:
    """Along a chain of single edges, each further hop weighs γ more: z_t = (1−γ) Σ_i γ^i v_{t−1−i} (Eq. 5)."""
    hooked = hook(decoder(attention={"variant": "chacal", "gamma": 0.8}))
    with hooked.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", chain_pattern)]):
        _, cache = hooked.run_with_cache(tokens(pos=4))
    v, z = cache["blocks.0.attn.hook_v"], cache["blocks.0.attn.hook_z"]
    assert_close(z[:, 0], 0.2 * v[:, 0])
    assert_close(z[:, 3], 0.2 * (v[:, 2] + 0.8 * v[:, 1] + 0.64 * v[:, 0]))


def test_an_edited_pattern_changes_what_standard_attention_reads() -> None:
    hooked = hook(decoder())
    with hooked.hooks(fwd_hooks=[("blocks.0.attn.hook_pattern", chain_pattern)]):
        _, cache = hooked.run_with_cache(tokens())
    assert_close(cache["blocks.0.attn.hook_z"][:, 1:], cache["blocks.0.attn.hook_v"][:, :-1])


@each_variant
def test_edited_scores_change_the_pattern(attention: Any) -> None:
    hooked = hook(decoder(attention=attention))
    only_first = torch.full((6, 6), float("-inf"))
    only_first[:, 0] = 0
    edit = ("blocks.1.attn.hook_attn_scores", lambda scores, hook: only_first.expand_as(scores))
    with hooked.hooks(fwd_hooks=[edit]):
        logits, cache = hooked.run_with_cache(tokens())
    assert bool((cache["blocks.1.attn.hook_pattern"][..., 0] == 1).all())
    assert not torch.allclose(logits, hooked(tokens()), atol=1e-3)


@each_variant
@pytest.mark.parametrize("name", ["hook_q", "hook_k", "hook_v", "hook_z", "hook_attn_scores", "hook_pattern"])
def test_every_step_of_attention_can_be_edited_and_an_edit_that_changes_nothing_does_nothing(
    attention: Any, name: str
) -> None:
    hooked, point = hook(decoder(attention=attention)), f"blocks.0.attn.{name}"
    same = hooked.run_with_hooks(tokens(), fwd_hooks=[(point, lambda x, hook: x.clone())])
    assert torch.equal(same, hooked(tokens()))
    halved = hooked.run_with_hooks(tokens(), fwd_hooks=[(point, lambda x, hook: x / 2)])
    assert not torch.allclose(halved, same, atol=1e-3)


@each_variant
def test_results_of_heads_add_up_to_what_attention_writes(attention: Any) -> None:
    hooked = hook(decoder(attention=attention))
    logits = hooked(tokens())
    hooked.set_use_attn_result(True)
    again, cache = hooked.run_with_cache(tokens())
    assert_close(again, logits)
    for layer in range(2):
        written = cache[f"blocks.{layer}.attn.hook_result"].sum(2) + hooked.b_O[layer]
        assert_close(written, cache[f"blocks.{layer}.hook_attn_out"])

    def without_head(x: Tensor, hook: Any) -> Tensor:
        return x.index_fill(2, torch.tensor([1]), 0)

    by_result = hooked.run_with_hooks(tokens(), fwd_hooks=[("blocks.0.attn.hook_result", without_head)])
    by_z = hooked.run_with_hooks(tokens(), fwd_hooks=[("blocks.0.attn.hook_z", without_head)])
    assert_close(by_result, by_z)


@each_norm
@pytest.mark.parametrize("flag", ["set_use_split_qkv_input", "set_use_attn_in"])
def test_inputs_of_single_heads_can_be_forked_without_changing_anything(norm: str, flag: str) -> None:
    hooked = hook(decoder(attention=MIXTURE, norm=norm))
    logits = hooked(tokens())
    getattr(hooked, flag)(True)
    assert_close(hooked(tokens()), logits)


def test_an_edit_of_one_heads_query_input_moves_that_heads_pattern_alone() -> None:
    hooked = hook(decoder(attention="chacal"))
    hooked.set_use_split_qkv_input(True)

    def turned(x: Tensor, hook: Any) -> Tensor:
        return torch.cat([x[:, :, :1], x[:, :, 1:].flip(-1)], dim=2)

    _, before = hooked.run_with_cache(tokens())
    with hooked.hooks(fwd_hooks=[("blocks.0.hook_q_input", turned)]):
        _, after = hooked.run_with_cache(tokens())
    difference = (after["blocks.0.attn.hook_pattern"] - before["blocks.0.attn.hook_pattern"]).abs().amax((0, 2, 3))
    assert difference[0] == 0 and difference[1] > 1e-2
    assert torch.equal(after["blocks.0.attn.hook_v"], before["blocks.0.attn.hook_v"])


@each_variant
def test_only_the_activations_asked_for_are_kept(attention: Any) -> None:
    names = ["blocks.0.hook_resid_mid", "blocks.1.attn.hook_pattern"]
    _, cache = hook(decoder(attention=attention)).run_with_cache(tokens(), names_filter=names)
    assert {cache[name].shape for name in names} == {(3, 6, 12), (3, 2, 6, 6)}
    with pytest.raises(KeyError):
        cache["blocks.0.attn.hook_pattern"]


@each_variant
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "none"])
def test_a_run_can_stop_at_a_layer_and_go_on_from_it(attention: Any, positions: str) -> None:
    hooked = hook(decoder(attention=attention, positions=positions))
    logits, cache = hooked.run_with_cache(tokens())
    residual = hooked(tokens(), stop_at_layer=1)
    assert torch.equal(residual, cache["blocks.1.hook_resid_pre"])
    assert torch.equal(hooked(residual, start_at_layer=1), logits)


def test_the_bridge_generates_what_the_model_generates() -> None:
    model = decoder(attention=MIXTURE)
    options = {"do_sample": False, "stop_at_eos": False, "verbose": False}
    assert torch.equal(
        hook(model).generate(tokens(pos=4), max_new_tokens=4, **options), model.generate(tokens(pos=4), 4)
    )


@each_variant
@each_norm
@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_the_residual_decomposes_into_what_was_written(attention: Any, norm: str, positions: str) -> None:
    hooked = hook(decoder(attention=attention, norm=norm, positions=positions))
    _, cache = hooked.run_with_cache(tokens())
    final = cache["blocks.1.hook_resid_post"]
    parts, labels = cache.decompose_resid(return_labels=True)
    assert labels == ["embed", "pos_embed", "0_attn_out", "0_mlp_out", "1_attn_out", "1_mlp_out"]
    assert_close(parts.sum(0), final)
    accumulated, labels = cache.accumulated_resid(incl_mid=True, return_labels=True)
    points = ["0.hook_resid_pre", "0.hook_resid_mid", "1.hook_resid_pre", "1.hook_resid_mid", "1.hook_resid_post"]
    assert_close(accumulated, torch.stack([cache[f"blocks.{point}"] for point in points]))
    heads, labels = cache.stack_head_results(incl_remainder=True, return_labels=True)
    assert labels == ["L0H0", "L0H1", "L1H0", "L1H1", "remainder"]
    assert_close(heads.sum(0), final)
    assert_close(heads[2:4].sum(0) + hooked.b_O[1], cache["blocks.1.hook_attn_out"])


@each_variant
@each_norm
def test_the_logit_lens_ends_in_the_logits(attention: Any, norm: str) -> None:
    hooked = hook(decoder(attention=attention, norm=norm, unembed_bias=True))
    logits, cache = hooked.run_with_cache(tokens())
    lens = cache.logit_lens(positions=None)
    assert lens.labels[-1] == "final_post"
    assert_close(lens.values[-1], logits)
    early = hooked.unembed(hooked.ln_final(cache["blocks.1.hook_resid_pre"]))
    assert_close(lens.values[1], early)


@each_variant
@each_norm
@pytest.mark.parametrize("unit", ["component", "head"])
def test_direct_logit_attributions_add_up_to_the_logit(attention: Any, norm: str, unit: str) -> None:
    hooked = hook(decoder(attention=attention, norm=norm))
    hooked.enable_compatibility_mode()
    answers = torch.tensor([1, 2, 3])
    parts = direct_logit_attribution(hooked, tokens(), answer_tokens=answers, unit=unit).attribution
    expected = (hooked(tokens())[:, -1] - hooked.b_U)[torch.arange(3), answers]
    assert_close(parts.sum(0), expected)


def clean_and_corrupt(hooked: HookedDecoder) -> tuple[Tensor, Tensor, Any, Any]:
    clean, corrupt = tokens(), tokens().clone()
    corrupt[:, 4] = (corrupt[:, 4] + 1) % 11
    return clean, corrupt, hooked.run_with_cache(clean)[1], hooked.run_with_cache(corrupt)[1]


def metric(logits: Tensor) -> Tensor:
    return logits[:, -1, 3].sum()


@each_variant
@each_norm
def test_patching_recovers_exactly_what_it_restores(attention: Any, norm: str) -> None:
    hooked = hook(decoder(attention=attention, norm=norm))
    clean, corrupt, clean_cache, corrupt_cache = clean_and_corrupt(hooked)
    want, got = metric(hooked(clean)), metric(hooked(corrupt))
    assert abs(want - got) > 1e-3
    by_position = patching.get_act_patch_resid_pre(hooked, corrupt, clean_cache, metric)
    assert_close(by_position[0, 4], want)  # the one embedding that differs
    assert_close(by_position[0, [0, 1, 2, 3, 5]], got.expand(5))
    nothing = patching.get_act_patch_attn_head_pattern_all_pos(hooked, corrupt, corrupt_cache, metric)
    assert_close(nothing, got.expand(2, 2))
    whole = patching.generic_activation_patch(
        hooked, corrupt, clean_cache, metric, lambda x, index, cache: cache, "resid_pre", ["layer"]
    )
    assert_close(whole, want.expand(2))


@each_variant
@each_norm
def test_an_edit_between_attention_and_mlp_edits_the_residual_itself(attention: Any, norm: str) -> None:
    hooked = hook(decoder(attention=attention, norm=norm))
    whole = hooked.run_with_cache(tokens())[1]["blocks.1.hook_resid_mid"]
    shift = torch.linspace(-1, 1, 12)
    edits = [("blocks.1.hook_resid_mid", lambda x, hook: x + shift)]
    with hooked.hooks(fwd_hooks=edits):
        _, cache = hooked.run_with_cache(tokens())
    assert_close(cache["blocks.1.hook_resid_post"], whole + shift + cache["blocks.1.hook_mlp_out"])


@each_variant
def test_patching_heads_equals_editing_them_by_hand(attention: Any) -> None:
    hooked = hook(decoder(attention=attention))
    _, corrupt, cache, _ = clean_and_corrupt(hooked)
    for sweep, name, axis in [
        (patching.get_act_patch_attn_head_out_all_pos, "hook_z", 2),
        (patching.get_act_patch_attn_head_v_all_pos, "hook_v", 2),
        (patching.get_act_patch_attn_head_pattern_all_pos, "hook_pattern", 1),
    ]:
        swept = sweep(hooked, corrupt, cache, metric)
        point = f"blocks.1.attn.{name}"

        def one_head(x: Tensor, hook: Any, axis: int = axis, point: str = point) -> Tensor:
            head = torch.tensor([0])
            return x.index_copy(axis, head, cache[point].index_select(axis, head))

        assert_close(swept[1, 0], metric(hooked.run_with_hooks(corrupt, fwd_hooks=[(point, one_head)])))


def test_a_direct_path_is_what_one_head_writes_as_one_later_head_reads_it() -> None:
    hooked = hook(decoder(attention="chacal", n_heads=1, norm="none"))
    _, corrupt, clean, broken = clean_and_corrupt(hooked)
    path = patching.get_act_patch_direct_path(
        hooked, corrupt, clean, broken, metric, src_layer=0, src_head=0, component="v", verbose=False
    )
    write = (clean["blocks.0.attn.hook_z"] - broken["blocks.0.attn.hook_z"])[:, :, 0] @ hooked.W_O[0, 0]
    added = ("blocks.1.attn.hook_v", lambda v, hook: v + (write @ hooked.W_V[1, 0]).unsqueeze(2))
    assert_close(path[1, 0], metric(hooked.run_with_hooks(corrupt, fwd_hooks=[added])))


@each_variant
def test_attribution_patching_is_the_first_order_of_a_small_patch(attention: Any) -> None:
    hooked = hook(decoder(torch.float64, attention=attention))
    clean, corrupt, clean_cache, corrupt_cache = clean_and_corrupt(hooked)
    scores = attribution_patch(hooked, clean[:1], corrupt[:1], metric).node_scores
    size, head, position = 1e-6, 1, 4
    difference = (clean_cache["blocks.0.attn.hook_z"] - corrupt_cache["blocks.0.attn.hook_z"])[:1, position, head]

    def nudge(z: Tensor, hook: Any) -> Tensor:
        z = z.clone()
        z[:, position, head] += size * difference
        return z

    nudged = hooked.run_with_hooks(corrupt[:1], fwd_hooks=[("blocks.0.attn.hook_z", nudge)])
    effect = (metric(nudged) - metric(hooked(corrupt[:1]))).item() / size
    (score,) = (
        value
        for node, value in scores.items()
        if (node.kind, node.layer, node.head, node.position) == ("attn_head_out", 0, head, position)
    )
    assert abs(effect) > 1e-5 and score == pytest.approx(effect, rel=1e-3)


@each_variant
def test_attribution_of_edges_adds_up_to_that_of_nodes(attention: Any) -> None:
    hooked = hook(decoder(torch.float64, attention=attention))
    clean, corrupt, _, _ = clean_and_corrupt(hooked)
    nodes = attribution_patch(hooked, clean, corrupt, metric).node_scores
    edges = attribution_patch(hooked, clean, corrupt, metric, EdgeAttributionConfig(granularity="edge"))
    assert edges.edge_scores and edges.node_scores.keys() == nodes.keys()
    for node, score in edges.node_scores.items():
        assert score == pytest.approx(nodes[node], rel=1e-4, abs=1e-6)


@each_variant
def test_gradients_flow_through_the_bridge_as_through_the_model(attention: Any) -> None:
    model = decoder(torch.float64, attention=attention)
    hooked = hook(model)
    metric(model(tokens())).backward()
    metric(hooked(tokens())).backward()
    for layer, block in zip(model.layers, hooked.blocks, strict=True):
        for name in "qkvo":
            own = getattr(block.attn, name).original_component.weight.grad
            assert_close(own, getattr(layer.attn, name).weight.grad, atol=1e-10)
    assert_close(hooked.embed.weight.grad, model.token_embedding.weight.grad, atol=1e-10)


def test_a_hooked_model_that_trains_has_its_dropout() -> None:
    hooked = hook(decoder(dropout=0.5))
    assert torch.equal(hooked(tokens()), hooked(tokens()))
    hooked.train()
    assert not torch.allclose(hooked(tokens()), hooked(tokens()), atol=1e-3)


@each_variant
def test_the_bridge_runs_under_half_precision(attention: Any) -> None:
    hooked = hook(decoder(attention=attention))
    with torch.autocast("cpu", torch.bfloat16):
        half, cache = hooked.run_with_cache(tokens())
    full = hooked(tokens())
    assert bool(cache["blocks.0.attn.hook_z"].isfinite().all())
    assert (half.float() - full).abs().max() < 0.15 * full.abs().max()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (torch.full((1, 3), 11), "token 11 is outside the vocabulary 0..10"),
        (torch.full((1, 3), -1), "token -1 is outside the vocabulary 0..10"),
        (torch.zeros(1, 9, dtype=torch.long), "input of 9 tokens is longer than the context of 8"),
        (torch.rand(2, 3), "tokens are integers"),
    ],
)
def test_wrong_tokens_are_refused_through_the_bridge_too(wrong: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hook(decoder()).run_with_cache(wrong)


OPTIONS = ["fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases"]


@each_norm
@pytest.mark.parametrize("only", OPTIONS)
def test_no_option_of_weight_processing_changes_what_a_model_computes(norm: str, only: str) -> None:
    model = decoder(attention=MIXTURE, norm=norm)
    hooked = hook(model)
    hooked.enable_compatibility_mode(**{option: option == only for option in OPTIONS})
    assert_close(log_probs(hooked), log_probs(model))


def test_transformer_lens_own_folding_would_change_chacal() -> None:
    """The trap that `HookedDecoder.process_weights` is there for; if this fails, it may go."""
    model = decoder(attention="chacal")
    hooked = hook(model)
    hooked.adapter.weight_processing_conversions = hooked.adapter._qkvo_weight_conversions(include_biases=True)
    TransformerBridge.process_weights(hooked, fold_ln=False, center_writing_weights=False, center_unembed=False)
    assert (log_probs(hooked) - log_probs(model)).abs().max() > 1e-2


def test_processed_weights_are_transformer_lens_own_where_those_are_exact() -> None:
    ours, theirs = hook(decoder()), hook(decoder())
    ours.process_weights()
    theirs.adapter.weight_processing_conversions = theirs.adapter._qkvo_weight_conversions(include_biases=True)
    TransformerBridge.process_weights(theirs)
    expected = theirs.state_dict()
    for name, weight in ours.state_dict().items():
        assert_close(weight, expected[name])


def test_only_layers_that_pass_constants_through_give_up_their_value_biases() -> None:
    hooked = hook(decoder(attention=MIXTURE))
    kept = hooked.b_V[1].clone()
    hooked.enable_compatibility_mode(fold_value_biases=True, fold_ln=False)
    assert not hooked.b_V[0].any()
    assert torch.equal(hooked.b_V[1], kept)


def test_processing_does_what_its_options_say() -> None:
    hooked = hook(decoder(tied=True))
    hooked.enable_compatibility_mode()
    zero = torch.zeros(())
    for norm in (hooked.blocks[0].ln1, hooked.blocks[1].ln2, hooked.ln_final):
        assert bool((norm.weight == 1).all()) and bool((norm.bias == 0).all())
    for written in (
        hooked.W_E,
        hooked.W_pos,
        hooked.W_O,
        hooked.b_O,
        hooked.W_out,
        hooked.b_out,
        hooked.W_U,
        hooked.b_U,
    ):
        assert_close(written.mean(-1).abs().max(), zero)
    assert not torch.allclose(hooked.W_E, hooked.W_U.T, atol=1e-3)


def test_processing_twice_or_not_at_all_does_no_harm() -> None:
    model = decoder(attention="chacal")
    hooked = hook(model)
    hooked.enable_compatibility_mode(no_processing=True)
    assert torch.equal(hooked.W_E, model.token_embedding.weight)
    hooked.enable_compatibility_mode()
    hooked.enable_compatibility_mode()
    assert_close(log_probs(hooked), log_probs(model))


def test_refactoring_attention_matrices_is_refused_and_leaves_the_model_whole() -> None:
    model = decoder(attention="chacal")
    hooked = hook(model)
    with pytest.raises(ValueError, match=r"refactor_factored_attn_matrices .* leave it False"):
        hooked.enable_compatibility_mode(refactor_factored_attn_matrices=True)
    assert_close(hooked(tokens()), model(tokens()))
    assert "blocks.0.attn.hook_pattern" in hooked.hook_dict


def test_words_are_refused_in_one_line_that_says_what_to_give_instead() -> None:
    hooked = hook(decoder())
    of_words: list[tuple[str, Any]] = [
        (name, "3 4") for name in (*ALWAYS, *OF_WORDS, *GENERATING, "to_tokens", "hf_generate")
    ]
    of_words += [("to_string", [1, 2]), ("to_str_tokens", tokens()[0]), ("to_single_str_token", 3)]
    of_words += [("generate", ["3 4", "5"]), ("generate_stream", ["3 4", "5"]), ("__call__", "3 4")]
    for name, words in of_words:
        with pytest.raises(ValueError, match=r"^this model has no tokenizer.* give token ids") as error:
            getattr(hooked, name)(words)
        assert "\n" not in str(error.value), name
    with pytest.raises(ValueError, match="no tokenizer"):
        hooked.generate(max_new_tokens=2)
    with pytest.raises(ValueError, match="no tokenizer"):
        hooked.get_token_position("3", tokens()[0])


def test_token_ids_are_generated_from_and_found_without_a_tokenizer() -> None:
    model = decoder()
    hooked, ids = hook(model), tokens(pos=4)
    own = model.generate(ids, 3)
    assert torch.equal(hooked.generate(ids, max_new_tokens=3, do_sample=False, verbose=False), own)
    *_, streamed = hooked.generate_stream(ids, max_new_tokens=3, do_sample=False, verbose=False)
    assert torch.equal(streamed, own)
    assert hooked.get_token_position(int(ids[0, 2]), ids[0]) == ids[0].tolist().index(int(ids[0, 2]))
    assert hooked.tokens_to_residual_directions(ids[0]).shape == (4, model.config.d_model)


@pytest.mark.parametrize(
    "shape",
    [
        {"attention": MIXTURE},
        {"tied": True},
        {"positions": "rotary"},
        {"positions": "sinusoidal", "norm": "rmsnorm"},
        {"attention": "learned_chacal", "d_mlp": 0},
    ],
    ids=str,
)
def test_models_hooked_together_are_each_as_hooked_alone(shape: dict[str, Any]) -> None:
    shape = {"n_layers": 2, "d_model": 12, "n_heads": 2, "d_head": 6, "d_mlp": 16, "d_vocab": 11, "n_ctx": 8, **shape}
    models = [Decoder(DecoderConfig(**shape), torch.Generator().manual_seed(seed)) for seed in range(3)]
    together = hook_alike(models)
    for model, found in zip(models, together, strict=True):
        alone = hook(model)
        (logits, kept), (expected, all_kept) = found.run_with_cache(tokens()), alone.run_with_cache(tokens())
        assert torch.equal(logits, expected) and [*kept] == [*all_kept]
        assert all(torch.equal(kept[name], all_kept[name]) for name in all_kept)
    # None shares a weight or a hook with another, or with the model that it was made of.
    theirs = [{one.data_ptr() for one in each.parameters()} for each in (*models, *together)]
    assert all(not one & other for i, one in enumerate(theirs) for other in theirs[:i])
    together[0].blocks[0].hook_resid_mid.add_hook(lambda x, hook: x * 0)
    assert torch.equal(together[1](tokens()), hook(models[1])(tokens()))


class Remembers(StandardAttention):
    """A variant with a number that PyTorch does not know of."""

    name = "remembers"
    sharpness = 1.0

    def scale_queries(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        return q * self.sharpness


def test_models_whose_parts_differ_in_more_than_weights_are_hooked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ATTENTION, "remembers", Remembers)
    shape = DecoderConfig(n_layers=1, d_model=12, n_heads=2, d_vocab=11, n_ctx=8, attention="remembers")
    models = [Decoder(shape, torch.Generator().manual_seed(seed)) for seed in range(2)]
    models[1].layers[0].attn.variant.sharpness = 400.0  # type: ignore[assignment, union-attr]
    assert_close(hook_alike(models)[1](tokens()), models[1](tokens()))


def test_of_no_models_none_are_hooked() -> None:
    assert hook_alike([]) == []
