"""Architectures that TransformerLens bridges: loss, lens and every edit are the model's own, or refused in a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, GPT2LMHeadModel, PreTrainedModel

from workbench.capture import Capture, Subject, capture
from workbench.circuits import Comparison, activation_patching, attribution_patching, direct_logit_attribution
from workbench.inspection import inspect_model
from workbench.instruments.answers import loss
from workbench.instruments.lens import logit_lens
from workbench.interventions import CutEdge, can_remove_heads, try_edit
from workbench.models.logits import LogitTransform
from workbench.models.pretrained.model import Pretrained
from workbench.models.watched_only import EDITED, EditReachesNothingError, WatchedOnly
from workbench.tasks import Batch, Pairs, make, own_sequences

SHAPE: dict[str, Any] = {
    **{"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None},
}
GATED = {**SHAPE, "intermediate_size": 48, "num_key_value_heads": 2}
GPT = {
    "vocab_size": 40,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 32,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", GPT),
    "gpt_bigcode": ("gpt_bigcode", GPT),
    "gptj": ("gptj", {**GPT, "rotary_dim": 4}),
    "gpt_neo": (
        "gpt_neo",
        {**SHAPE, "num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    ),
    "gpt_neox": ("gpt_neox", {**SHAPE, "intermediate_size": 48}),
    "codegen": ("codegen", {**GPT, "rotary_dim": 4}),
    "opt": ("opt", {**SHAPE, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "xglm": ("xglm", {**SHAPE, "d_model": 32, "ffn_dim": 48, "num_layers": 2, "attention_heads": 4}),
    "bloom": ("bloom", {"vocab_size": 40, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": ("mpt", {"vocab_size": 40, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 32}),
    "llama": ("llama", GATED),
    "qwen2": ("qwen2", GATED),
    "qwen3": ("qwen3", {**GATED, "head_dim": 8}),
    "gemma": ("gemma", {**GATED, "head_dim": 8, "num_key_value_heads": 1}),
    "gemma2": ("gemma2", {**GATED, "head_dim": 8}),
    "gemma2, capped at 3": ("gemma2", {**GATED, "head_dim": 8, "final_logit_softcapping": 3.0}),
    "gemma3": ("gemma3_text", {**GATED, "head_dim": 8}),
    "cohere": ("cohere", GATED),
    "granite": ("granite", {**GATED, "logits_scaling": 13.0, "residual_multiplier": 0.22}),
    "olmo2": ("olmo2", GATED),
    "phi": ("phi", GATED),
    "phi3": ("phi3", GATED),
    "stablelm": ("stablelm", GATED),
    "mixtral": ("mixtral", {**GATED, "num_local_experts": 2, "num_experts_per_tok": 1}),
    "nemotron": ("nemotron", GATED),
}
"""In words -> the model type, and its settings."""
OWN_ATTENTION = ("gptj", "gpt_neo", "opt", "xglm")
"""Those whose attention the bridge leaves to the model."""
each_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


def build(name: str) -> PreTrainedModel:
    """A model with random weights; sharp enough for its cap, its heads and its norms to matter."""
    kind, settings = ARCHITECTURES[name.removesuffix(", for induction")]
    if name.endswith("induction"):
        settings = {**settings, "vocab_size": len(make("induction").vocabulary)}
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return model


@cache
def loaded(name: str) -> tuple[Pretrained, Tensor, Tensor]:
    """The hooked model, tokens, and the logits that Transformers' own model made of them before it was hooked."""
    model = build(name)
    tokens = torch.randint(2, 33, (3, 10), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        logits = model(tokens, use_cache=False).logits
    return Pretrained(model), tokens, logits


def seen(name: str, n: int = 3) -> Capture:
    pretrained, tokens = loaded(name)[0], loaded(name)[1][:n]
    subject = Subject.of(pretrained, own_sequences(tokens, pretrained.config.d_vocab), name)
    batch = Batch.next_token(tokens, 0, tokens.shape[1] - 1)
    return capture(pretrained.hooked(), subject, batch, logit_lens.needs(subject))


def edited_points(name: str) -> Iterator[str]:
    hooked = loaded(name)[0].hooked()
    yield from (point for point in hooked.hook_dict if point.endswith(EDITED))


@each_architecture
def test_the_loss_is_that_of_the_logits_that_the_model_returns(name: str) -> None:
    _, tokens, logits = loaded(name)
    found = seen(name)
    torch.testing.assert_close(found.logits, logits, rtol=1e-3, atol=1e-4)
    own = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert loss.measure(found).values.mean() == pytest.approx(float(own), rel=1e-4)


@each_architecture
def test_the_lens_reads_the_last_residual_as_the_model_does(name: str) -> None:
    pretrained, _, logits = loaded(name)
    found = seen(name)
    assert logit_lens.why_not(found.subject) is None
    last = f"blocks.{pretrained.config.n_layers - 1}.hook_resid_post"
    decoded = logit_lens.decode(found.subject, found[last])
    torch.testing.assert_close(decoded, logits, rtol=1e-3, atol=1e-3 * float(logits.abs().max()))
    assert (
        logit_lens.measure(found).select(point=f"blocks.{pretrained.config.n_layers - 1}.hook_resid_post").values.max()
        < 1e-4
    )


@each_architecture
def test_every_edit_moves_the_output_or_is_refused_in_a_line(name: str) -> None:
    pretrained, tokens, logits = loaded(name)
    hooked = pretrained.hooked()
    refused = set()
    for point in edited_points(name):

        def change(activation: Tensor, hook: Any) -> Tensor:
            draws = torch.Generator().manual_seed(2)
            return activation + torch.rand(activation.shape, generator=draws)

        try:
            with torch.no_grad(), hooked.hooks(fwd_hooks=[(point, change)]):
                moved = float((hooked(tokens) - logits).abs().max())
        except EditReachesNothingError as error:
            assert "\n" not in str(error) and point.split(".")[-1] in str(error)
            refused.add(".".join(point.split(".")[2:]))
        else:
            assert moved > 1e-3, point
    assert refused == ({"attn.hook_attn_scores", "attn.hook_pattern"} if name in OWN_ATTENTION else set())
    assert set(pretrained.facts.watched_only) >= {f"blocks.0.{point}" for point in refused}


@each_architecture
def test_an_edit_between_attention_and_mlp_goes_on_with_the_residual(name: str) -> None:
    pretrained, tokens, _ = loaded(name)
    if pretrained.facts.parallel:
        pytest.skip("attention and MLP read the same residual: there is none between them")
    hooked = pretrained.hooked()
    points = [f"blocks.0.hook_{part}" for part in ("resid_mid", "mlp_out", "resid_post")]
    kept: list[dict[str, Tensor]] = [{}, {}]
    added = torch.randn(32, generator=torch.Generator().manual_seed(3))

    def keep(x: Tensor, hook: Any, into: dict[str, Tensor], point: str) -> None:
        into[point] = x

    for into, edit in zip(kept, ([], [(points[0], lambda x, hook: x + added)]), strict=True):
        hooks = [(point, partial(keep, into=into, point=point)) for point in points]
        with torch.no_grad(), hooked.hooks(fwd_hooks=[*edit, *hooks]):
            hooked(tokens)
    assert kept[0][points[0]].shape == kept[0][points[2]].shape == (3, 10, 32)
    changed = [kept[1][point] - kept[0][point] for point in points]
    torch.testing.assert_close(changed[2], added + changed[1], rtol=1e-3, atol=1e-4)


def test_a_scale_and_a_cap_are_found_out_by_running_the_model() -> None:
    found = {name: loaded(name)[0].facts.logits for name in ("llama", "cohere", "gemma2", "gemma2, capped at 3")}
    assert found["llama"] == LogitTransform()
    assert (found["cohere"].scale, found["cohere"].cap) == (0.0625, float("inf"))
    assert found["gemma2"].cap == pytest.approx(30) and found["gemma2, capped at 3"].cap == pytest.approx(3)
    assert loaded("granite")[0].facts.logits.scale == pytest.approx(1 / 13)


def compared(name: str) -> Comparison:
    """A comparison on pairs whose last tokens differ."""
    pretrained, tokens, _ = loaded(name)
    sides = []
    for last in (5, 6):
        side = tokens.clone()
        side[:, -2:] = last
        sides.append(Batch.next_token(side, 8, 9))
    return Comparison(pretrained.hooked(), Pairs(*sides, sides[0].loss_mask, "last"))


def test_a_pattern_that_nothing_reads_is_refused_and_heads_are_still_removed_and_patched() -> None:
    hooked = loaded("opt")[0].hooked()
    assert isinstance(hooked.hook_dict["blocks.0.attn.hook_pattern"], WatchedOnly)
    with pytest.raises(EditReachesNothingError, match="can be watched, not edited"):
        try_edit(hooked, seen("opt", n=1), CutEdge(5, 2, 0, 0))
    for patching in (activation_patching, attribution_patching):
        with pytest.raises(EditReachesNothingError, match="hook_pattern"):
            patching(compared("opt"), "pattern")
        assert np.abs(patching(compared("opt"), "head").values).max() > 0
    assert can_remove_heads(hooked)
    assert np.abs(attribution_patching(compared("llama"), "pattern").values).max() > 0


def test_an_inspection_says_which_causal_test_it_left_out() -> None:
    task = make("induction")
    found = inspect_model(loaded("opt, for induction")[0], task, only=["induction"], n=48)
    assert found["induction"].causal is None
    assert "can be watched, not edited" in found.left_out["induction, its causal test"]
    found = inspect_model(loaded("llama, for induction")[0], task, only=["induction"], n=48)
    assert found["induction"].causal is not None and not found.left_out


def own_gpt2(change: Callable[[Tensor], Tensor]) -> Pretrained:
    """A GPT-2 of somebody's own, which does something to its logits."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = GPT2LMHeadModel.forward(self, *args, **kwargs)
        output.logits = change(output.logits)
        return output

    model = build("gpt2")
    model.__class__ = type("GPT2LMHeadModel", (GPT2LMHeadModel,), {"forward": forward})
    return Pretrained(model)


def test_logits_that_are_neither_scaled_nor_capped_are_measured_and_not_decoded() -> None:
    own = own_gpt2(lambda logits: logits.log_softmax(-1) + logits.mean())
    assert own.facts.no_decoding is not None and "no scale and no soft cap" in own.facts.no_decoding
    tokens = torch.randint(2, 40, (4, 8), generator=torch.Generator().manual_seed(1))
    found = inspect_model(own, tokens, only=["loss", "logit_lens"], n=4)
    assert "loss" in found.results and list(found.left_out) == ["logit_lens"]


def test_direct_attribution_refuses_logits_that_are_no_sum() -> None:
    capped = own_gpt2(lambda logits: 5 * torch.tanh(logits / 5))
    assert capped.facts.logits.cap == pytest.approx(5)
    with pytest.raises(ValueError, match="caps or changes"):
        direct_logit_attribution(replace(compared("gpt2"), model=capped.hooked()))
    assert len(direct_logit_attribution(compared("gpt2")).values)
