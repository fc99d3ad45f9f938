"""Modules of one's own: their parts found, their activations seen, edits of these felt, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.models.own_modules import CONTEXT, KINDS, PARTS, VOCABULARY, Block, Fused, Language, ScaledBlock, Softmax
from workbench.models import ModuleKind, OwnModel, Parts
from workbench.models.own_model import logits_of
from workbench.util.seeds import generator

SEEN = [name for name in KINDS if name != "unseen"]


def made(kind: str) -> OwnModel:
    module = KINDS[kind].fresh({}, generator(1, kind))
    return OwnModel(module, KINDS[kind].parts, CONTEXT, name=kind)


def tokens(n: int = 5, length: int = 17) -> Tensor:
    return torch.randint(VOCABULARY, (n, length), generator=generator(0, "tokens"))


@torch.no_grad()
def captured(model: OwnModel, given: Tensor) -> dict[str, Tensor]:
    seen: dict[str, Tensor] = {}
    hooked = model.hooked()
    with hooked.hooks(fwd_hooks=[(name, lambda x, hook: seen.update({hook.name: x})) for name in hooked.hook_dict]):
        hooked(given)
    return seen


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_hooked_module_computes_what_the_module_does_and_leaves_it_alone(kind: str) -> None:
    module = KINDS[kind].fresh({}, generator(1, kind)).eval()
    given = tokens()
    before = logits_of(module(given))
    model = OwnModel(module, KINDS[kind].parts, CONTEXT)
    torch.testing.assert_close(model.hooked()(given), before, atol=1e-5, rtol=1e-5)
    assert torch.equal(logits_of(module(given)), before)


def test_a_module_in_training_goes_on_training() -> None:
    module = KINDS["encoder"].fresh({}, generator(1, "encoder")).train()
    model = OwnModel(module, KINDS["encoder"].parts, CONTEXT)
    assert all(part.training for part in module.modules()) and not model.training
    with torch.no_grad():
        module.output.weight.zero_()
    assert model.unembedding.weight.abs().sum() > 0, "it is a copy"


@torch.no_grad()
def test_two_threads_at_once_see_all_of_pytorchs_own_layers() -> None:
    """The one that ends first must not let the other skip submodules; afterwards PyTorch's switch is as it was."""
    inside, ended = {"first": Event(), "last": Event()}, Event()
    seen: dict[str, set[str]] = {"first": set(), "last": set()}

    def run(who: str, awaited: Event) -> None:
        hooked, names = made("encoder").hooked(), seen[who]

        def wait(x: Tensor, hook: Any) -> None:
            inside[who].set()
            assert awaited.wait(30)

        watch = [(name, lambda x, hook: names.add(hook.name)) for name in hooked.hook_dict]
        with torch.no_grad(), hooked.hooks(fwd_hooks=[("hook_embed", wait), *watch]):
            hooked(tokens())

    first = Thread(target=run, args=("first", inside["last"]))
    last = Thread(target=run, args=("last", ended))
    first.start()
    assert inside["first"].wait(30)
    last.start()
    first.join()
    ended.set()
    last.join()
    assert seen["first"] == seen["last"] and "blocks.1.attn.hook_pattern" in seen["last"]
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize("kind", KINDS)
def test_the_residual_is_the_sum_of_what_is_written_to_it(kind: str) -> None:
    seen = captured(made(kind), tokens())
    x = seen["hook_embed"]
    for layer in range(2):
        at = f"blocks.{layer}.hook_"
        torch.testing.assert_close(seen[at + "resid_pre"], x)
        x = x + seen[at + "attn_out"]
        torch.testing.assert_close(seen[at + "resid_mid"], x)
        x = x + seen[at + "mlp_out"]
        torch.testing.assert_close(seen[at + "resid_post"], x, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", SEEN)
def test_the_pattern_is_a_causal_distribution_of_every_head(kind: str) -> None:
    model = made(kind)
    assert model.config.n_heads == 4 and model.facts.no_pattern is None
    pattern = captured(model, tokens())["blocks.1.attn.hook_pattern"]
    assert pattern.shape == (5, 4, 17, 17) and not pattern.triu(1).any()
    torch.testing.assert_close(pattern.sum(-1), torch.ones(5, 4, 17))


def test_the_pattern_is_the_softmax_that_the_module_takes() -> None:
    """Against the same attention written out: grouped queries share keys and values."""
    model = made("fused")
    seen = captured(model, tokens())
    block: Any = model.blocks[0]
    x = block.norm1(seen["hook_embed"])
    q, k = block.attention.q(x).unflatten(-1, (4, 8)), block.attention.k(x).unflatten(-1, (2, 8))
    k = torch.stack([k[:, :, 0], k[:, :, 0], k[:, :, 1], k[:, :, 1]], dim=2)
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
    scores = scores.masked_fill(torch.ones(17, 17, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(seen["blocks.0.attn.hook_pattern"], scores.softmax(-1))
    torch.testing.assert_close(seen["blocks.0.attn.hook_k"], k)


@pytest.mark.parametrize("kind", SEEN)
@torch.no_grad()
def test_an_edit_of_the_pattern_changes_what_is_read(kind: str) -> None:
    """Attention to itself alone: then no position depends on any other."""
    hooked, given = made(kind).hooked(), tokens()
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    with hooked.hooks(fwd_hooks=[(name, lambda x, hook: torch.eye(x.shape[-1]).expand_as(x)) for name in names]):
        alone = hooked(given)
        torch.testing.assert_close(alone[:, 3:4], hooked(given[:, 3:4]), atol=1e-5, rtol=1e-4)
    assert (alone - hooked(given)).abs().max() > 0.01


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_edit_between_attention_and_mlp_goes_on_with_the_residual(kind: str) -> None:
    """Replaced by the residual of other tokens there, the rest of the forward pass is that of those tokens."""
    model, given = made(kind), tokens()
    other = captured(model, given.flip(1))
    hooked = model.hooked()
    edit = ("blocks.1.hook_resid_mid", lambda x, hook: other["blocks.1.hook_resid_mid"])
    with hooked.hooks(fwd_hooks=[edit]):
        torch.testing.assert_close(hooked(given), other["unembed.hook_out"], atol=1e-5, rtol=1e-5)


def test_where_no_pattern_is_seen_the_reason_is_told() -> None:
    model = made("unseen")
    assert not model.config.pattern
    assert model.facts.no_pattern is not None and "layer 0" in model.facts.no_pattern


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (replace(PARTS, embed="embedding"), "Language has no 'embedding', given as embed; there is: tok, layers, norm"),
        (replace(PARTS, attn="attn"), "Block has no 'attn', given as attn; there is: norm1, attention, norm2"),
        (replace(PARTS, attn="attention.query"), "there is: q, o, k, v"),
        (replace(PARTS, unembed="norm"), "norm is no unembedding of tok"),
        (replace(PARTS, mlp="norm2"), "block 0 is not its input with what attention and norm2 write added"),
        (replace(PARTS, blocks="tok"), "tok is not a list of blocks"),
    ],
)
def test_a_part_that_is_not_there_is_named_with_what_is(parts: Parts, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        OwnModel(Language(Fused), parts, CONTEXT)


def test_blocks_that_scale_the_sum_are_refused() -> None:
    with pytest.raises(ValueError, match=r"block 0 is not its input with what .* no residual stream"):
        OwnModel(Language(block=ScaledBlock), PARTS, CONTEXT)


def test_fresh_weights_follow_from_their_generator_alone() -> None:
    kind = ModuleKind(Language, PARTS)
    state = torch.get_rng_state()
    one, same, other = (kind.fresh({}, generator(seed, "fresh")) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one.tok.weight, same.tok.weight) and not torch.equal(one.tok.weight, other.tok.weight)


@torch.no_grad()
def test_it_decodes_as_the_module_would_step_by_step() -> None:
    model, prompts = made("softmax"), [tokens(1, 4)[0], tokens(1, 7)[0]]
    for prompt, whole in zip(prompts, model.generate(prompts, 3), strict=True):
        row = prompt
        for _ in range(3):
            row = torch.cat([row, model.module(row[None])[0][0, -1:].argmax(-1)])
        assert torch.equal(whole, row)
    with pytest.raises(ValueError, match="longer than the context of 24"):
        model.generate([tokens(1, 23)[0]], 2)


def test_a_module_of_another_class_may_have_its_parts_anywhere() -> None:
    """Names lead through submodules, and blocks may be under another module."""

    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Language(Softmax, block=Block)

        def forward(self, given: Tensor) -> Tensor:
            return self.model(given)[0]

    ends = {"embed": "model.tok", "blocks": "model.layers", "final_norm": "model.norm", "unembed": "model.output"}
    model = OwnModel(Outer(), Parts(attn="attention", mlp="feed_forward", **ends), CONTEXT)
    assert model.config.n_layers == 2 and model.config.n_heads == 4
