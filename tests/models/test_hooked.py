"""TransformerLens's own tools on every variant: what they return is checked against what they mean."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformer_lens.patching as patching
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.tools.analysis.attribution_patching import attribution_patch

import workbench
from workbench.models import Decoder, DecoderConfig

VARIANTS = ["standard", "tempered", "chacal", "standard,chacal", {"variant": "chacal", "form": "eq7"}]
each_variant = pytest.mark.parametrize("attention", VARIANTS, ids=str)
SHAPES = [
    {},
    {"norm": "none", "activation": "relu"},
    {"positions": "none", "unembed_bias": True},
    {"tied": True, "d_head": 7},
]


def decoder(attention: Any, **shape: Any) -> Decoder:
    config = DecoderConfig(2, 24, 3, 13, 16, attention=attention, **shape)
    model = Decoder(config, torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=g)
    return model.eval()


def tokens(seed: int = 2) -> torch.Tensor:
    return torch.randint(0, 13, (3, 9), generator=torch.Generator().manual_seed(seed))


def last_logit(logits: torch.Tensor) -> torch.Tensor:
    return logits[:, -1, 3].mean()


@each_variant
def test_hooking_leaves_the_model_alone_and_trainable(attention: Any) -> None:
    model = decoder(attention)
    before = model(tokens())
    hooked = workbench.hook(model)
    assert isinstance(hooked, TransformerBridge)
    hooked.enable_compatibility_mode(disable_warnings=True)
    assert torch.equal(model(tokens()), before)
    model.train()(tokens()).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@each_variant
def test_cached_activations_are_those_the_decoder_keeps(attention: Any) -> None:
    model = decoder(attention)
    names = [name for name in model.activation_names if name.startswith("blocks")]
    _, cache = workbench.hook(model).run_with_cache(tokens(), names_filter=names)
    _, kept = model(tokens(), keep=names)
    for name in names:
        torch.testing.assert_close(cache[name], kept[name], atol=1e-5, rtol=1e-5)


@each_variant
def test_scores_are_before_and_the_pattern_after_the_softmax(attention: Any) -> None:
    hooked = workbench.hook(decoder(attention))
    names = ["blocks.1.attn.hook_attn_scores", "blocks.1.attn.hook_pattern"]
    _, cache = hooked.run_with_cache(tokens(), names_filter=names)
    torch.testing.assert_close(cache[names[0]].softmax(-1), cache[names[1]])
    assert cache[names[0]].shape == (3, 3, 9, 9) and bool((cache[names[0]].triu(1) < -1e4)[..., 0, 1:].all())


@each_variant
def test_heads_have_transformer_lens_shapes(attention: Any) -> None:
    hooked = workbench.hook(decoder(attention))
    _, cache = hooked.run_with_cache(tokens())
    for name in "qkvz":
        assert cache[name, 0].shape == (3, 9, 3, 8), name


def test_an_edit_of_the_pattern_changes_what_chacal_solves() -> None:
    model = decoder("chacal")
    hooked = workbench.hook(model)
    _, cache = hooked.run_with_cache(tokens())
    v = cache["v", 0].transpose(1, 2)

    def cut(pattern: torch.Tensor, hook: Any) -> torch.Tensor:
        pattern = pattern.clone()
        pattern[:, :, 4, :4] = 0  # position 4 no longer hears the past
        return pattern

    seen = {}

    def keep(z: torch.Tensor, hook: Any) -> None:
        seen["z"] = z.transpose(1, 2)

    hooked.run_with_hooks(tokens(), fwd_hooks=[("blocks.0.attn.hook_pattern", cut), ("blocks.0.attn.hook_z", keep)])
    A = cut(cache["pattern", 0], None)
    inverse = torch.linalg.inv(torch.eye(9) - 0.9 * A.tril(-1))
    torch.testing.assert_close(seen["z"].reshape(3, 3, 9, 8), 0.1 * A @ inverse @ v, atol=1e-5, rtol=1e-4)


@each_variant
def test_an_edit_of_the_scores_changes_the_pattern(attention: Any) -> None:
    hooked, seen = workbench.hook(decoder(attention)), {}

    def level(scores: torch.Tensor, hook: Any) -> torch.Tensor:
        return torch.where(scores > -1e4, 0.0, scores)

    def keep(pattern: torch.Tensor, hook: Any) -> None:
        seen["pattern"] = pattern

    hooked.run_with_hooks(
        tokens(), fwd_hooks=[("blocks.0.attn.hook_attn_scores", level), ("blocks.0.attn.hook_pattern", keep)]
    )
    torch.testing.assert_close(seen["pattern"][0, 0, 3], torch.tensor([0.25] * 4 + [0.0] * 5))


@each_variant
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "asked", [{}, {"fold_value_biases": True}, {"fold_ln": False}, {"center_writing_weights": False}], ids=str
)
def test_weight_processing_never_changes_the_function(attention: Any, shape: dict[str, Any], asked: Any) -> None:
    model = decoder(attention, **shape)
    hooked = workbench.hook(model)
    expected = model(tokens()).log_softmax(-1)
    hooked.enable_compatibility_mode(disable_warnings=True, **asked)
    torch.testing.assert_close(hooked(tokens()).log_softmax(-1), expected, atol=2e-4, rtol=1e-4)


@each_variant
def test_folding_a_value_bias_through_chacal_would_have_changed_it(attention: Any) -> None:
    """The trap that weight processing must leave out: it is real for ChaCAL and only there."""
    hooked = workbench.hook(decoder(attention))
    expected = hooked(tokens()).log_softmax(-1)
    for module in hooked.modules():
        if isinstance(module, Attention):
            module.passes_constants = True  # type: ignore[misc]  # as if it did
    hooked.enable_compatibility_mode(disable_warnings=True)
    moved = (hooked(tokens()).log_softmax(-1) - expected).abs().max().item()
    assert (moved > 1e-2) == ("chacal" in str(attention))


@each_variant
def test_decomposed_residual_sums_to_the_residual(attention: Any) -> None:
    hooked = workbench.hook(decoder(attention))
    _, cache = hooked.run_with_cache(tokens())
    parts = cache.decompose_resid(mode="all")
    torch.testing.assert_close(parts.sum(0), cache["resid_post", 1], atol=1e-4, rtol=1e-4)
    accumulated = cache.accumulated_resid(incl_mid=True)
    torch.testing.assert_close(accumulated[-1], cache["resid_post", 1], atol=1e-5, rtol=1e-5)


@each_variant
def test_logit_lens_of_the_last_residual_gives_the_logits(attention: Any) -> None:
    hooked = workbench.hook(decoder(attention))
    logits, cache = hooked.run_with_cache(tokens())
    torch.testing.assert_close(cache.logit_lens(positions=None).values[-1], logits, atol=1e-4, rtol=1e-4)


@each_variant
def test_heads_results_sum_to_what_attention_writes(attention: Any) -> None:
    hooked = workbench.hook(decoder(attention))
    _, cache = hooked.run_with_cache(tokens())
    heads = cache.stack_head_results(layer=1)
    assert heads.shape == (3, 3, 9, 24)
    written = cache["attn_out", 0] - hooked.blocks[0].attn.o.original_component.bias
    torch.testing.assert_close(heads.sum(0), written, atol=1e-5, rtol=1e-4)


@each_variant
def test_attribution_patching_is_exact_where_the_metric_is_linear(attention: Any) -> None:
    """Without a final norm a logit is linear in what the last MLP writes: the first-order estimate is the effect."""
    hooked = workbench.hook(decoder(attention, norm="none"))
    clean, corrupt = tokens()[:1], tokens(7)[:1]
    scores = attribution_patch(hooked, clean, corrupt, lambda logits: logits.reshape(-1, 13)[-1, 3]).node_scores
    estimate = sum(v for node, v in scores.items() if (node.kind, node.layer, node.position) == ("mlp_out", 1, 8))
    _, cache = hooked.run_with_cache(clean)

    def patch(mlp_out: torch.Tensor, hook: Any) -> torch.Tensor:
        return cache["blocks.1.hook_mlp_out"]

    patched = hooked.run_with_hooks(corrupt, fwd_hooks=[("blocks.1.hook_mlp_out", patch)])
    effect = (patched - hooked(corrupt))[0, -1, 3].item()
    assert estimate == pytest.approx(effect, rel=1e-3, abs=1e-5) and effect != 0


@each_variant
def test_patching_the_whole_residual_recovers_the_clean_run(attention: Any) -> None:
    hooked = workbench.hook(decoder(attention))
    clean, corrupted = tokens(), tokens(7)
    logits, cache = hooked.run_with_cache(clean)
    patched = patching.get_act_patch_resid_pre(hooked, corrupted, cache, last_logit)
    assert patched.shape == (2, 9)
    _, again = hooked.run_with_cache(corrupted)
    untouched = patching.get_act_patch_resid_pre(hooked, corrupted, again, last_logit)
    torch.testing.assert_close(untouched, torch.full_like(untouched, last_logit(hooked(corrupted)).item()))

    def whole(resid: torch.Tensor, hook: Any) -> torch.Tensor:
        return cache["blocks.1.hook_resid_pre"]

    restored = hooked.run_with_hooks(corrupted, fwd_hooks=[("blocks.1.hook_resid_pre", whole)])
    torch.testing.assert_close(restored, logits, atol=1e-5, rtol=1e-5)


@each_variant
def test_gradients_flow_through_the_bridge(attention: Any) -> None:
    hooked, seen = workbench.hook(decoder(attention)), {}

    def keep(pattern: torch.Tensor, hook: Any) -> None:
        pattern.retain_grad()
        seen["pattern"] = pattern

    hooked.run_with_hooks(tokens(), fwd_hooks=[("blocks.0.attn.hook_pattern", keep)])[..., 3].sum().backward()
    assert seen["pattern"].grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [(torch.tensor([[13]]), "outside the vocabulary 0..12"), (torch.zeros(1, 17, dtype=torch.long), "context of 16")],
)
def test_inputs_that_do_not_fit_are_refused_through_the_bridge_too(wrong: torch.Tensor, message: str) -> None:
    model = decoder("chacal")
    for run in (model, workbench.hook(model)):
        with pytest.raises(ValueError, match=message):
            run(wrong)
