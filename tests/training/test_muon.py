"""A run whose blocks are trained with Muon: each step beside one written out, and that it goes on from a state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import workbench
from tests.training.killed import check_resumed, train_until_killed
from workbench.models import Decoder
from workbench.objectives.next_token import next_token
from workbench.training import preset_config
from workbench.training.data import training_batches
from workbench.util.files import load_tensors, save_tensors

SMALL: dict[str, Any] = {
    "task": {"max_length": 5},
    "model": {"d_model": 16, "n_heads": 2, "n_kv_heads": 1, "tied": True, "attention": "scalable"},
    "optimizer": "muon",
    "batch_size": 4,
    "eval_size": 8,
    "steps": 12,
    "eval_every": 6,
    "save_every": 5,
    "weight_decay": 0.1,
    "device": "cpu",
}


def check_orthogonalised(found: Tensor, matrix: Tensor) -> None:
    """Newton–Schulz keeps singular vectors, and takes each singular value s of norm 1 five times through a polynomial.

    Directions of small singular values are left out: bfloat16, which rounds to 1 in 256, drowns them.
    """
    u, s, v = torch.linalg.svd(matrix.double(), full_matrices=False)
    kept = s > 0.1 * s[0]
    s = s / s.norm()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    in_directions = (u.T @ found @ v.T)[kept][:, kept]
    torch.testing.assert_close(in_directions, s[kept].diag(), atol=0.06, rtol=0)


def test_each_step_is_muon_for_the_matrices_of_blocks_and_adamw_for_the_rest(tmp_path: Path) -> None:
    rate = 1e-2
    constant = {"schedule": "constant", "warmup": 0, "learning_rate": rate, "clip": 1e9, "checkpoint_every": 1}
    config = preset_config("sort-standard", {**SMALL, **constant})
    run = workbench.train(config, tmp_path / "run", progress=False)
    momentum: dict[str, Tensor] = {}
    model = run.model(0)
    assert isinstance(model, Decoder)
    by_muon = {n for n, p in model.layers.named_parameters(prefix="layers") if p.ndim == 2}
    assert len(by_muon) == 2 * (4 + 2)
    rest = torch.optim.AdamW(
        [p for name, p in model.named_parameters() if name not in by_muon], rate, (0.9, config.beta2), weight_decay=0.1
    )
    for step, (batch,) in enumerate(training_batches(run.task(), config), 1):
        model.load_state_dict(run.model(step - 1).state_dict())
        model.zero_grad()
        next_token(model(batch.tokens), batch).backward()
        rest.step()
        after = run.model(step).state_dict()
        for name, weight in model.named_parameters():
            if name not in by_muon:
                torch.testing.assert_close(after[name], weight.data, atol=1e-6, rtol=1e-4)
                continue
            assert weight.grad is not None
            momentum[name] = 0.95 * momentum.get(name, torch.zeros(())) + 0.05 * weight.grad
            moved = (weight.data * (1 - rate * 0.1) - after[name]).double() / (rate * 0.2 * max(weight.shape) ** 0.5)
            check_orthogonalised(moved, 0.95 * momentum[name] + 0.05 * weight.grad)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": {"max_length": 5, "hints": "successor"}, "average": 0.6},
        {"precision": "float16", "accumulate": 2, "model": {**SMALL["model"], "dropout": 0.1}},
        {"precision": "float64", "objectives": {"seq_vcr": {"layer": -1, "projection": 12}}},
    ],
    ids=["with a hint and an average", "float16", "with parameters of an objective"],
)
def test_a_run_that_was_killed_goes_on_with_both_optimizers(changes: dict[str, Any], tmp_path: Path) -> None:
    config = preset_config("sort-standard", {**SMALL, **changes})
    train_until_killed(config, tmp_path / "killed", 8)
    check_resumed(config, tmp_path / "killed", tmp_path / "whole")


def test_a_state_of_another_optimizer_is_none_of_the_run(tmp_path: Path) -> None:
    train_until_killed(preset_config("sort-standard", SMALL), tmp_path / "run", 8)
    state = tmp_path / "run" / "resume" / "step-5.safetensors"
    tensors, metadata = load_tensors(state)
    old, new = "momentum_buffer", "exp_avg"
    save_tensors(state, {name.replace(old, new): tensor for name, tensor in tensors.items()}, metadata)
    with pytest.raises(
        ValueError, match=r"is no state of this run: optimizer\.\d+\.exp_avg is missing, or has another"
    ):
        workbench.resume(tmp_path / "run", progress=False)
