"""Whatever a bridge makes of a layer's heads, hooks see one head at a time, and an edit of a head is of that head."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from tests.models.tiny_models import EXPERTS, GROUPS, LATENT, other, tokens
from workbench.capture import LOGITS, Subject, capture
from workbench.circuits import Comparison, activation_patching, attribution_patching, direct_logit_attribution
from workbench.interventions import ReadBy, RemoveHead, SpanEdit, can_remove_heads, fallen_without, try_edit
from workbench.models.facts import EditReachesNothingError
from workbench.models.pretrained.model import Pretrained
from workbench.tasks import Batch, Pairs, own_sequences

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", GROUPS),
    "deepseek_v2": ("deepseek_v2", LATENT),
    "deepseek_v3": ("deepseek_v3", LATENT),
    "deepseek_v3, twice the width": ("deepseek_v3", {**LATENT, "v_head_dim": 16}),
    "deepseek_v3, as many heads as tokens": ("deepseek_v3", {**LATENT, "num_attention_heads": 8}),
    "glm_moe_dsa": (
        "glm_moe_dsa",
        {**LATENT, "num_key_value_heads": 4, "index_topk": 4, "index_head_dim": 16, "index_n_heads": 2},
    ),
    "qwen3_next": (
        "qwen3_next",
        {**GROUPS, **EXPERTS, "layer_types": ["full_attention"] * 2, "shared_expert_intermediate_size": 16},
    ),
    "nemotron": ("nemotron", GROUPS),
    "jetmoe": ("jetmoe", {**GROUPS, "kv_channels": 8, "num_local_experts": 4}),
    "modernbert-decoder": ("modernbert-decoder", {**GROUPS, "local_attention": 8}),
}
of_every_kind = pytest.mark.parametrize("name", list(KINDS)[:7])


def build(name: str) -> PreTrainedModel:
    kind, settings = KINDS[name]
    model = other(kind, **settings)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.2 * torch.randn_like(weight)
    return model


@cache
def loaded(name: str) -> Pretrained:
    return Pretrained(build(name))


def subject(name: str) -> Subject:
    return Subject.of(loaded(name), own_sequences(tokens(), 40), name)


@torch.no_grad()
def without(name: str, layer: int, head: int) -> Tensor:
    """The logits of Transformers' own model when a head's part of what the output projection reads is 0."""
    model = build(name)

    def zero(module: Any, given: tuple[Tensor, ...]) -> tuple[Tensor]:
        read = given[0].unflatten(-1, (model.config.num_attention_heads, -1)).clone()
        read[..., head, :] = 0
        return (read.flatten(-2),)

    model.model.layers[layer].self_attn.o_proj.register_forward_pre_hook(zero)
    logits: Tensor = model(tokens(), use_cache=False).logits
    return logits


@of_every_kind
def test_a_removed_head_is_that_head_of_the_model_itself(name: str) -> None:
    hooked = loaded(name).hooked()
    assert can_remove_heads(hooked)
    for layer, head in ((0, 1), (1, 3)):
        expected = without(name, layer, head)
        for example in range(3):
            batch = Batch.next_token(tokens()[example : example + 1], 0, 11)
            edited = try_edit(
                hooked, capture(hooked, subject(name), batch, [LOGITS]), RemoveHead(layer, head)
            ).after.logits
            close = {"rtol": 1e-3, "atol": 1e-4 * float(expected.abs().max())}
            torch.testing.assert_close(edited, expected[example : example + 1], **close)


@of_every_kind
def test_right_answers_that_fall_are_counted_for_every_head(name: str) -> None:
    batch, n_heads = Batch.next_token(tokens(), 0, 11), loaded(name).config.n_heads
    heads = [(1, head) for head in range(n_heads)]
    assert fallen_without(loaded(name).hooked(), subject(name), batch, heads).values.shape == (n_heads, 3)


@of_every_kind
def test_what_a_head_reads_rests_on_its_own_queries_keys_and_values_alone(name: str) -> None:
    hooked, n_heads = loaded(name).hooked(), loaded(name).config.n_heads
    _, plain = hooked.run_with_cache(tokens())
    z = plain["blocks.0.attn.hook_z"]
    assert z.shape == (3, 12, n_heads, loaded(name).config.d_head)
    for part in "qkv":
        point = f"blocks.0.attn.hook_{part}"
        assert plain[point].shape[:2] == (3, 12) and n_heads % plain[point].shape[2] == 0
        seen: list[Tensor] = []

        def second(x: Tensor, hook: Any) -> Tensor:
            return torch.cat([x[:, :, :1], x[:, :, 1:2].flip(1), x[:, :, 2:]], 2)

        with (
            torch.no_grad(),
            hooked.hooks(fwd_hooks=[(point, second), ("blocks.0.attn.hook_z", partial(keep, into=seen))]),
        ):
            hooked(tokens())
        moved = (seen[0] - z).abs().amax((0, 1, 3)) > 1e-5
        size = n_heads // plain[point].shape[2]
        assert moved.nonzero()[:, 0].tolist() == list(range(size, 2 * size))


def keep(x: Tensor, hook: Any, into: list[Tensor]) -> None:
    into.append(x)


def test_layers_with_different_numbers_of_heads_are_refused() -> None:
    settings = {**GROUPS, **EXPERTS, "head_dim": 8, "num_attention_heads_per_layer": [4, 2]}
    with pytest.raises(ValueError, match=r"cannot be opened: layers have different numbers of heads.* has 2, others 4"):
        Pretrained(other("laguna", **settings))


def test_an_edit_that_heads_alone_read_is_made_where_no_other_shares_their_keys() -> None:
    hooked = loaded("llama").hooked()
    everywhere, values = torch.ones(3, 12, dtype=torch.bool), torch.randn(3, 12, 32)

    def edit(layer: int) -> SpanEdit:
        return SpanEdit(f"blocks.{layer}.hook_resid_pre", everywhere, values, torch.zeros(3, dtype=torch.long))

    with pytest.raises(EditReachesNothingError, match="share their keys and values, 2 at a time"):
        ReadBy(edit, [(0, 1)]).hooks(hooked, tokens())
    plain = hooked.run_with_cache(tokens())[1]["blocks.0.attn.hook_z"]
    seen: list[Tensor] = []
    hooks = ReadBy(edit, [(0, 2), (0, 3)]).hooks(hooked, tokens())
    with torch.no_grad(), hooked.hooks(fwd_hooks=[*hooks, ("blocks.0.attn.hook_z", partial(keep, into=seen))]):
        hooked(tokens())
    assert ((seen[0] - plain).abs().amax((0, 1, 3)) > 1e-5).tolist() == [False, False, True, True]


def test_a_head_that_a_model_does_not_show_is_not_removed() -> None:
    hooked, batch = loaded("jetmoe").hooked(), Batch.next_token(tokens()[:1], 0, 11)
    assert not can_remove_heads(hooked)
    with pytest.raises(ValueError, match=r"does not show blocks.0.attn.hook_z"):
        try_edit(hooked, capture(hooked, subject("jetmoe"), batch, [LOGITS]), RemoveHead(0, 1))
    with pytest.raises(ValueError, match=r"does not show blocks.0.attn.hook_z"):
        fallen_without(hooked, subject("jetmoe"), batch, [(0, 1)])


def compared(name: str) -> Comparison:
    """A comparison on pairs whose last tokens differ."""
    sides = []
    for last in (5, 6):
        side = tokens()
        side[:, -2:] = last
        sides.append(Batch.next_token(side, 10, 11))
    return Comparison(loaded(name).hooked(), Pairs(*sides, sides[0].loss_mask, "last"))


@pytest.mark.parametrize("measure", [activation_patching, attribution_patching])
def test_effects_of_keys_that_heads_share_are_said_to_be_of_groups(measure: Any) -> None:
    keys, queries = measure(compared("llama"), "k"), measure(compared("llama"), "q")
    assert keys.values.shape[1] == 2 and "`head` counts groups of 2 heads" in keys.caption
    assert queries.values.shape[1] == 4 and "groups" not in queries.caption


@pytest.mark.parametrize("name", ["nemotron", "modernbert-decoder"])
def test_parts_that_do_not_sum_to_the_logit_difference_are_no_attribution(name: str) -> None:
    """Of the first the norm adds 1 to its weight; the second has a layer between its norm and its unembedding."""
    with pytest.raises(ValueError, match="does not sum to its logit difference"):
        direct_logit_attribution(compared(name))
