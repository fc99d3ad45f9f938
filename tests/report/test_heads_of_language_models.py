"""`workbench heads` on models of Hugging Face: each role's best head, beside uninformed models, with a causal test."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

import workbench
from tests.models.tiny_models import tiny
from tests.models.tiny_tokenizers import of_prompts
from workbench.circuits import Comparison
from workbench.circuits.movers import difference_lost, moves
from workbench.cli import main
from workbench.inspection import head_claims, uninformed_heads
from workbench.inspection.head_claims import REORDERED
from workbench.judgement.against_controls import Against
from workbench.judgement.claim import Need
from workbench.models.pretrained import Pretrained
from workbench.report.heads import Heads, RoleHead
from workbench.tasks.prompt_sets import prompt_set
from workbench.util.progress import shown

N_HEADS, D = 8, 256


def reads_by_position() -> PreTrainedModel:
    """A GPT-2 that knows no tokens: head 0.0 reads the position before and writes nothing, head 0.1 reads the one 15
    before, which is what came next where 16 tokens come twice, and writes the token that it finds there.
    """
    model: Any = tiny("gpt2", n_embd=D, n_head=N_HEADS, n_layer=1)
    width, block = D // N_HEADS, model.transformer.h[0]
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        model.transformer.wpe.weight[:, :32] = 10 * torch.eye(32)
        model.transformer.wte.weight[:, 32 : 32 + 40] = 5 * torch.eye(40)
        for norm in (block.ln_1, block.ln_2, model.transformer.ln_f):
            norm.weight.fill_(1.0)
        matrix = block.attn.c_attn.weight  # [d, 3 d], queries of head 0 first
        for head, back in enumerate((1, 15)):
            mine = width * head
            matrix[back:32, mine : mine + width] = 2 * torch.eye(32)[: 32 - back]  # position i asks for i − back
            matrix[:32, D + mine : D + mine + width] = 2 * torch.eye(32)
        matrix[32 : 32 + width, 2 * D + width : 2 * D + 2 * width] = torch.eye(width)  # tokens below 32
        block.attn.c_proj.weight[width : 2 * width, 32 : 32 + width] = 40 * torch.eye(width)
    return model


@pytest.fixture(scope="module")
def planted() -> Heads:
    return workbench.heads(Pretrained(reads_by_position(), name="planted"), n=48)


def of(ranked: Heads, role: str) -> list[RoleHead]:
    return [each for each in ranked.strongest if each.role == role]


def test_a_planted_head_is_beyond_re_initialised_and_shuffled_models_and_others_are_not(planted: Heads) -> None:
    first, second = of(planted, "previous token")
    assert (first.layer, first.head) == (0, 0) and float(first.share.values) > 0.95
    beside = {each.against: each for each in first.judgement.controls}
    assert beside["untrained"].models == beside["shuffled"].models == uninformed_heads.MODELS
    assert first.is_more and not second.is_more
    assert 0 < first.baseline < 0.8 and first.baseline >= beside["untrained"].most
    assert not any(each.is_more for each in of(planted, "duplicate token"))
    assert "Previous token, head 0.0: mostly" in planted.says or "Previous token, head 0.0: always" in planted.says
    assert not [line for line in planted.says.splitlines() if line.startswith("Duplicate token")]


def test_what_a_role_takes_from_positions_alone_is_told_beside_it_by_tokens_in_random_order(planted: Heads) -> None:
    (head, *_), (place, *_) = of(planted, "induction"), of(planted, "previous token")
    assert (head.layer, head.head) == (0, 1) and float(head.share.values) > 0.8
    reordered = next(each for each in head.judgement.controls if each.against == REORDERED)
    assert reordered.models is None and reordered.rate == pytest.approx(float(head.share.values), abs=0.05)
    assert not head.is_more, "it reads a place, whatever stands there"
    assert "mismatched" not in {each.against for each in head.judgement.controls}, "all examples repeat alike"
    assert all(each.against != REORDERED for each in place.judgement.controls), "the place is the same"


def test_removing_a_head_is_tested_beside_one_elsewhere_and_in_each_uninformed_model(planted: Heads) -> None:
    needed, idle = of(planted, "induction")[0].judgement, of(planted, "previous token")[0].judgement
    assert needed.test is not None and needed.test.elsewhere is not None and needed.test.where == "layer 0, head 1"
    assert {null.against for null in needed.test.nulls} == {"untrained", "shuffled"}
    assert all(null.n > 0 for null in needed.test.nulls), "their own answers count, as none is right"
    assert needed.need is Need.AS_CLAIMED and idle.need is Need.NOT_NEEDED
    assert of(planted, "first token")[0].judgement.need is Need.UNTESTED


def test_one_uninformed_model_is_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import gc
    import weakref

    alive: list[weakref.ref[Any]] = []
    make = uninformed_heads.uninformed_model

    def counted(*given: Any) -> Any:
        assert not any(ref() is not None for ref in alive), "the one before is gone"
        made = make(*given)
        alive.append(weakref.ref(made.subject.model))
        return made

    monkeypatch.setattr(uninformed_heads, "uninformed_model", counted)
    workbench.heads(Pretrained(tiny("llama")), n=8)
    gc.collect()
    assert len(alive) == 2 * uninformed_heads.MODELS


def test_after_ctrl_c_too_few_models_are_no_reason_to_say_that_no_head_has_a_role(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = uninformed_heads.uninformed_model

    def interrupts(*given: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return made(*given)

    monkeypatch.setattr(uninformed_heads, "uninformed_model", interrupts)
    with shown(quiet=True), pytest.warns(UserWarning, match="ended after 1 of 10; what is done is kept"):
        ranked = workbench.heads(Pretrained(reads_by_position(), name="planted"), n=48)
    said = next(line for line in ranked.says.splitlines() if line.startswith("Previous token, head 0.0"))
    assert "too few to compare with a control" in said
    assert not any("previous token" in line for line in ranked.says.splitlines() if line.startswith("In these roles"))


def test_where_no_uninformed_model_ran_no_head_is_beyond_its_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_claims, "uninformed_heads", lambda *_: uninformed_heads.Uninformed())
    ranked = workbench.heads(Pretrained(reads_by_position(), name="planted"), n=48)
    said = next(line for line in ranked.says.splitlines() if line.startswith("Previous token, head 0.0"))
    assert "no control was measured" in said and "beyond its controls" not in said


def test_ctrl_c_keeps_the_uninformed_models_that_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    made = uninformed_heads.uninformed_model
    counted: list[int] = []

    def interrupts_in_the_fourth(*given: Any) -> Any:
        counted.append(1)
        if len(counted) == 4:
            signal.raise_signal(signal.SIGINT)
        return made(*given)

    monkeypatch.setattr(uninformed_heads, "uninformed_model", interrupts_in_the_fourth)
    with shown(quiet=True), pytest.warns(UserWarning, match="ended after 4 of 10; what is done is kept"):
        ranked = workbench.heads(Pretrained(tiny("llama")), n=8)
    best = of(ranked, "induction")[0]
    assert [(each.against, each.models) for each in best.judgement.controls if each.models] == [("untrained", 4)]
    assert not np.isnan(float(best.lost.values)) and "head" in ranked.says


@pytest.fixture(scope="module")
def prompted() -> Pretrained:
    made = of_prompts()
    module = tiny("llama", vocab_size=len(made), pad_token_id=None, bos_token_id=None)
    return Pretrained(module, made, "tiny")


def test_heads_that_move_a_slot_read_it_most_and_write_the_answer(prompted: Pretrained) -> None:
    pairs = prompt_set("indirect-objects", prompted, n=12).pairs
    comparison, module = Comparison(prompted.hooked(), pairs), prompted.hooked()
    moved = moves(comparison, "IO")
    tokens = pairs.clean.tokens
    with torch.no_grad():
        _, cache = prompted.hooked().run_with_cache(tokens)
        weight = prompted.final_norm.weight if hasattr(prompted.final_norm, "weight") else 1
    rows = torch.arange(len(pairs))
    end = pairs.asked.long().argmax(-1)
    direction = (
        prompted.unembedding.weight[pairs.right[pairs.asked]] - prompted.unembedding.weight[pairs.wrong[pairs.asked]]
    )
    for layer in range(2):
        z, pattern = cache[f"blocks.{layer}.attn.hook_z"], cache[f"blocks.{layer}.attn.hook_pattern"]
        for head in range(4):
            write = z[rows, end, head] @ module.blocks[layer].attn.W_O[head]
            direct = (write * weight * direction).sum(-1)
            attention = pattern[rows, head, end]
            of_slots = {name: (attention * mask).sum(-1) for name, mask in pairs.slots.items()}
            of_slots["end"] = attention[rows, end]
            most = torch.stack([of_slots["IO"] > value for name, value in of_slots.items() if name != "IO"]).all(0)
            expected = (most & (direct > 0)).double()
            assert moved.select(layer=layer, head=head).values == pytest.approx(expected.numpy())


def test_what_a_head_s_absence_costs_is_a_share_of_the_logit_difference(prompted: Pretrained) -> None:
    drawn = prompt_set("indirect-objects", prompted, n=12)
    comparison = Comparison(prompted.hooked(), drawn.pairs)
    before = comparison.baselines[0]

    def without(z: torch.Tensor, hook: Any) -> torch.Tensor:
        z = z.clone()
        z[:, :, 2] = 0
        return z

    logits = comparison.run(drawn.pairs.clean.tokens, [("blocks.1.attn.hook_z", without)])
    after = comparison.score(logits, drawn.pairs, torch.empty(0)).detach().double().numpy()
    expected = np.where(before > 0, np.clip(1 - after / before, 0, 1), np.nan)
    assert difference_lost(comparison, (1, 2)) == pytest.approx(expected, nan_ok=True)
    assert (np.isnan(expected) | (difference_lost(comparison, (1, 2), drawn.pairs) >= 0)).all()


def test_on_a_prompt_set_movers_are_told_with_their_control_pairs(prompted: Pretrained) -> None:
    ranked = workbench.heads(prompted, text="indirect-objects", n=8, top=1)
    (mover,) = of(ranked, "moves IO")
    assert mover.pairs is not None and 0 <= float(mover.pairs[0].values) <= 1
    assert {each.against for each in mover.judgement.controls} == {"untrained", "shuffled"}
    assert "moves IO" in ranked.says
    told = json.loads(ranked.json())["strongest"]
    assert next(each for each in told if each["role"] == "moves IO")["judgement"]["need"] == mover.judgement.need
    assert all(each["judgement"]["title"] for each in told) and mover.judgement.against in {*Against}


def test_the_command_names_the_kinds_of_uninformed_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reads_by_position().save_pretrained(tmp_path / "planted")
    assert main(["heads", str(tmp_path / "planted"), "--n", "8"]) == 0
    said = capsys.readouterr().out
    assert "uninformed, at most" in said and "Previous token, head 0.0: " in said
