"""Seq-VCR as an objective: which activation it acts on, and which vectors count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench
from workbench import tasks
from workbench.models import Decoder, DecoderConfig
from workbench.objectives import OBJECTIVES, covariance_floor, seq_vcr
from workbench.runs import load_run
from workbench.runs.config import RunConfig
from workbench.tasks import Batch
from workbench.training import PRESETS, preset_config
from workbench.util.seeds import generator

TASK = tasks.make("sorting", q=6, min_length=2, max_length=5)  # its sequences have 5 to 11 tokens
CONFIG = DecoderConfig(n_layers=2, d_model=12, n_heads=2, d_vocab=len(TASK.vocabulary), n_ctx=TASK.n_ctx)
WEIGHTS = {"variance_weight": 1.0, "covariance_weight": 0.5}


def batch_of(n: int = 12) -> Batch:
    return TASK.sample(n, generator(0))


def term(batch: Batch, pad: int = TASK.pad, **settings: Any) -> tuple[Tensor, dict[str, Any], dict[str, Tensor]]:
    """The objective's loss and figures on a model with fixed weights, and everything that the model can keep."""
    model = Decoder(CONFIG, generator(1)).double()
    logits, kept = model(batch.tokens, keep=model.activation_names)
    objective = OBJECTIVES["seq_vcr"](CONFIG, pad=pad, **WEIGHTS, **settings)
    loss, figures = objective(logits, kept, batch)
    return loss, figures, {**kept, "logits": logits}


@pytest.mark.parametrize("at", ["logits", *CONFIG.activation_names])
def test_it_acts_on_any_activation_by_its_name(at: str) -> None:
    batch = batch_of()
    loss, _, kept = term(batch, at=at, positions="all")
    assert OBJECTIVES["seq_vcr"](CONFIG, at=at).needs == (() if at == "logits" else (at,))
    assert torch.equal(loss, seq_vcr(kept[at], **WEIGHTS))
    others = [seq_vcr(value, **WEIGHTS) for name, value in kept.items() if not torch.equal(value, kept[at])]
    assert len(others) >= len(kept) - 2 and loss not in others


@pytest.mark.parametrize(("layer", "at"), [(0, "blocks.0.hook_resid_post"), (-1, "blocks.1.hook_resid_post")])
def test_a_layer_is_short_for_its_resid_post(layer: int, at: str) -> None:
    batch = batch_of()
    assert torch.equal(term(batch, layer=layer)[0], term(batch, at=at)[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"at": "blocks.2.hook_resid_post"}, r"unknown place for seq_vcr.*there is: blocks\.0.*ln_final.*logits"),
        ({"at": "ln_final"}, r"did you mean 'ln_final.hook_out'"),
        ({"at": "ln_final.hook_out", "layer": 0}, "one place, not at='ln_final.hook_out' and layer=0"),
        ({"layer": 2}, r"layers 0\.\.1"),
    ],
)
def test_a_place_that_the_model_does_not_have_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OBJECTIVES["seq_vcr"](CONFIG, **settings)


@pytest.mark.parametrize("over", ["batch", "batch+length"])
def test_padding_counts_neither_in_the_loss_nor_in_its_floor(over: Any) -> None:
    batch = batch_of()
    real = batch.tokens != TASK.pad
    assert 0.2 < 1 - real.double().mean() < 0.6, "the case has much padding"
    loss, figures, kept = term(batch, over=over)
    assert torch.equal(loss, seq_vcr(kept["logits"], over=over, mask=real, **WEIGHTS))
    junk = torch.where(real.unsqueeze(-1), kept["logits"], torch.randn(kept["logits"].shape, generator=generator(2)))
    objective = OBJECTIVES["seq_vcr"](CONFIG, pad=TASK.pad, over=over, **WEIGHTS)
    assert torch.equal(loss, objective(junk, {}, batch)[0])
    assert not torch.isclose(loss, term(batch, over=over, positions="all")[0])
    counts = [int(real.sum())] if over == "batch+length" else real.sum(0).tolist()
    floors = [covariance_floor(n, CONFIG.d_vocab, 0.5) for n in counts if n >= 2]
    assert float(figures["seq_vcr_floor"]) == pytest.approx(sum(floors) / len(floors))


def test_wider_padding_changes_nothing() -> None:
    """Sequences do not change their loss when one that is longer than all of them is in another part of the run."""
    narrow = TASK.sample(8, generator(3), length=3)
    wide = Batch.cat([narrow, TASK.sample(1, generator(3), length=5)], TASK.pad)[torch.arange(8)]
    assert wide.tokens.shape[1] > narrow.tokens.shape[1]
    assert torch.allclose(term(narrow)[0], term(wide)[0], atol=1e-12)
    assert not torch.isclose(term(narrow, positions="all")[0], term(wide, positions="all")[0])


def test_only_padding_is_left_out_constant_tokens_count() -> None:
    """The delimiter of equally long sequences is constant; what attention writes there is not."""
    batch = TASK.sample(8, generator(4), length=3)
    assert batch.tokens[:, 3].unique().numel() == 1
    x = torch.randn(8, batch.tokens.shape[1], 6, dtype=torch.float64, generator=generator(5), requires_grad=True)
    loss, _ = OBJECTIVES["seq_vcr"](CONFIG, pad=TASK.pad, **WEIGHTS)(x, {}, batch)
    loss.backward()
    assert x.grad is not None and (x.grad.abs().sum((0, 2)) > 0).all()


def test_the_scored_positions_alone_count_if_asked() -> None:
    batch = batch_of()
    loss, _, kept = term(batch, positions="scored")
    assert torch.equal(loss, seq_vcr(kept["logits"], mask=batch.loss_mask, **WEIGHTS))


def test_of_a_task_without_padding_all_positions_are_real() -> None:
    batch = batch_of()
    assert torch.equal(term(batch, pad=-1)[0], term(batch, positions="all")[0])


@pytest.mark.parametrize("positions", ["real", "scored"])
@pytest.mark.parametrize("over", ["batch", "batch+length"])
def test_several_models_at_once_have_the_loss_and_floor_of_each(positions: str, over: str) -> None:
    objective = OBJECTIVES["seq_vcr"](CONFIG, pad=TASK.pad, positions=positions, over=over, **WEIGHTS)
    batches = [TASK.sample(6, generator(seed)) for seed in range(20)]
    batches = [batch for batch in batches if batch.tokens.shape[1] == TASK.n_ctx][:3]
    x = torch.randn(3, 6, TASK.n_ctx, 8, dtype=torch.float64, generator=generator(6))

    def figures(logits: Tensor, *parts: Tensor) -> tuple[Tensor, Tensor]:
        loss, logged = objective(logits, {}, Batch(*parts))
        return loss, torch.as_tensor(logged["seq_vcr_floor"])

    parts = [torch.stack([getattr(batch, name) for batch in batches]) for name in ("tokens", "targets", "loss_mask")]
    together = torch.func.vmap(figures)(x, *parts)
    for i in range(3):
        alone = figures(x[i], *(part[i] for part in parts))
        assert torch.allclose(together[0][i], alone[0]) and torch.allclose(together[1][i], alone[1])


@pytest.mark.parametrize(
    ("written", "positions", "place"),
    [
        ({}, "all", ()),
        ({"eta": 0.01}, "all", ()),
        ({"layer": -1, "scored_only": True}, "scored", ("blocks.1.hook_resid_post",)),
        ({"layer": 0, "scored_only": False, "projection": 7}, "all", ("blocks.0.hook_resid_post",)),
        ({"positions": "real"}, "real", ()),
    ],
)
def test_an_old_config_means_what_it_meant(
    written: dict[str, Any], positions: str, place: tuple[str, ...], tmp_path: Path
) -> None:
    """Before `positions` there was `scored_only`, and what was not given was not written."""
    short = {"steps": 1, "batch_size": 4, "eval_size": 4, "model": {"d_model": 8, "n_heads": 2}}
    run = workbench.train("sort-standard", out=tmp_path / "run", progress=False, **short)
    config = json.loads((run.path / "config.json").read_text())
    config["objectives"] = {"next_token": {}, "seq_vcr": written}
    (run.path / "config.json").write_text(json.dumps(config))
    objective = load_run(run.path).config.make_objectives(run.task())["seq_vcr"]
    assert objective.settings.positions == positions and objective.needs == place
    assert objective.pad == run.task().pad >= 0
    again = preset_config(load_run(run.path).config, {"steps": 2})
    assert again.objectives["seq_vcr"]["positions"] == positions, "a config that is made from it keeps its meaning"


def test_a_new_config_spells_out_every_setting(tmp_path: Path) -> None:
    config = preset_config("sort-standard", {"objectives": {"seq_vcr": {}}, "steps": 0, "eval_size": 4})
    written = json.loads(config.model_dump_json())["objectives"]["seq_vcr"]
    assert set(written) == set(OBJECTIVES["seq_vcr"].Settings.model_fields) and written["positions"] == "real"
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    run = workbench.train(config, out=tmp_path / "run", progress=False)
    assert load_run(run.path).config == config


def test_the_flag_of_old_commands_is_taken_unless_it_contradicts() -> None:
    def positions(**settings: Any) -> str:
        return OBJECTIVES["seq_vcr"].Settings(**settings).positions  # type: ignore[attr-defined]

    assert (positions(scored_only=True), positions(scored_only=False), positions()) == ("scored", "all", "real")
    for wrong in ({"scored_only": True, "positions": "real"}, {"scored_only": "yes"}):
        with pytest.raises(ValueError, match="old form of positions; give positions alone, one of: all, real, scored"):
            preset_config("sort-standard", {"objectives": {"seq_vcr": wrong}})


def test_presets_have_the_weights_of_their_papers_task() -> None:
    """λ1 and λ2 of a later version of the paper: 1 and 0.004 for multiplication, 0.1 and 0.5 for arithmetic and LIS."""
    weights = {"multiplication": (1.0, 0.004), "arithmetic": (0.1, 0.5), "lis": (0.1, 0.5)}
    seen = set()
    for name in PRESETS:
        config = preset_config(name, {})
        settings = config.objectives.get("seq_vcr")
        if settings is not None:
            seen.add(config.task["name"])
            assert (settings["variance_weight"], settings["covariance_weight"]) == weights[config.task["name"]], name
            assert settings["at"] == "logits", "the paper acts there where the vocabulary is small"
    assert seen == set(weights)
