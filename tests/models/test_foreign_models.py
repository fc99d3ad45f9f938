"""Architectures that TransformerLens bridges: loss, lens and every edit are the model's own, or refused in a line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import GPT2LMHeadModel

from tests.models.architecture_table import (
    ARCHITECTURES,
    OTHERS,
    PAGE,
    build,
    loaded,
    of_the_model,
    page,
    refused_edits,
    seen,
)
from workbench.circuits import Comparison, activation_patching, attribution_patching, direct_logit_attribution
from workbench.inspection import inspect_model
from workbench.interventions import CutEdge, can_remove_heads, try_edit
from workbench.models.facts import EditReachesNothingError, LogitTransform, WatchedOnly
from workbench.models.pretrained.model import Pretrained
from workbench.tasks import Batch, Pairs, make

FEW = ("gpt2", "opt", "gemma2, capped at 3", "cohere", "granite", "olmo2")
"""Architectures that differ in what is tested; a slow test takes all."""
of_few = pytest.mark.parametrize("name", FEW)


@pytest.mark.slow
def test_the_page_of_architectures_is_what_the_calls_give() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "python -m tests.models.architecture_table"


def test_the_page_has_no_architecture_of_which_something_is_wrong() -> None:
    assert "**no**" not in PAGE.read_text(encoding="utf-8") and len(ARCHITECTURES) + len(OTHERS) >= 18


@of_few
def test_loss_and_lens_are_those_of_the_logits_that_the_model_returns(name: str) -> None:
    assert of_the_model(name)


@of_few
def test_every_edit_moves_the_output_or_is_refused_in_a_line(name: str) -> None:
    refused = refused_edits(name)
    assert refused == ({"hook_attn_scores", "hook_pattern"} if name == "opt" else set())
    assert set(loaded(name)[0].facts.watched_only) >= {f"blocks.0.attn.{point}" for point in refused}


@of_few
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
    own = own_gpt2(lambda logits: logits.log_softmax(-1))
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
