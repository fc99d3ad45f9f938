"""A run that keeps an average of its weights: which average, where it is kept, and that it goes on from a state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from tests.training.killed import FEW_STEPS, check_resumed, train_until_killed
from tests.training.test_distributed import as_fields, assert_same_run, launched
from workbench.models import Decoder
from workbench.runs import Run, RunConfig, load_run
from workbench.training import preset_config, train_seeds
from workbench.training.evaluation import Evaluation
from workbench.util.files import load_tensors, save_tensors

SMALL: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2, "tied": True},
    "learning_rate": 1e-2,
    **FEW_STEPS,
}


def config(**changes: Any) -> RunConfig:
    return preset_config("chain-chacal", {**SMALL, "average": 0.6, **changes})


def weights(run: Run, step: int) -> dict[str, torch.Tensor]:
    return run.model(step).state_dict()


def test_what_is_kept_and_evaluated_is_the_average_of_what_is_trained(tmp_path: Path) -> None:
    plain = workbench.train(config(average=0, checkpoint_every=1), tmp_path / "plain", progress=False)
    averaged = workbench.train(config(checkpoint_every=1), tmp_path / "averaged", progress=False)
    mean = {name: weight.clone() for name, weight in weights(plain, 0).items()}
    for step in range(1, SMALL["steps"] + 1):
        decay = min(0.6, (1 + step) / (10 + step))
        for name, weight in weights(plain, step).items():
            mean[name] = decay * mean[name] + (1 - decay) * weight
            torch.testing.assert_close(weights(averaged, step)[name], mean[name], atol=1e-12, rtol=0)
    assert not torch.allclose(mean["token_embedding.weight"], plain.model().state_dict()["token_embedding.weight"])
    last = averaged.model()
    assert isinstance(last, Decoder)
    assert all(torch.equal(last.state_dict()[name], weight) for name, weight in weights(averaged, 12).items())
    measured = Evaluation(averaged.task(), averaged.config)(last, torch.device("cpu"))
    assert averaged.metrics()["test_loss"].iloc[-1] == pytest.approx(measured["test_loss"], abs=1e-12)
    assert averaged.metrics()["loss"].equals(plain.metrics()["loss"]), "training itself is the same"


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_run_that_was_killed_goes_on_with_its_average(precision: str, tmp_path: Path) -> None:
    changes = {"accumulate": 2, "model": {**SMALL["model"], "dropout": 0.1}, "checkpoint_every": 5}
    settings = config(precision=precision, **changes)
    train_until_killed(settings, tmp_path / "killed", 8)
    begun = load_run(tmp_path / "killed")
    kept = load_tensors(begun.path / "checkpoints" / "step-5.safetensors")[0]
    assert not begun.finished and begun.step() == 5
    assert all(torch.equal(begun.model().state_dict()[name], weight) for name, weight in kept.items())
    check_resumed(settings, tmp_path / "killed", tmp_path / "whole")


def test_a_state_without_what_is_trained_is_none_of_a_run_with_an_average(tmp_path: Path) -> None:
    train_until_killed(config(), tmp_path / "run", 8)
    state = tmp_path / "run" / "resume" / "step-5.safetensors"
    tensors, metadata = load_tensors(state)
    save_tensors(state, {name: x for name, x in tensors.items() if not name.startswith("live.")}, metadata)
    with pytest.raises(ValueError, match=r"is no state of this run: live\.\S+ is missing"):
        workbench.resume(tmp_path / "run", progress=False)


def test_runs_of_a_stack_and_of_two_processes_keep_the_average_of_one(tmp_path: Path) -> None:
    settings = config()
    alone = workbench.train(settings, tmp_path / "alone", progress=False)
    stacked = train_seeds(settings, tmp_path / "stack", [0, 1], progress=False)
    assert_same_run(alone, stacked[0], ["loss", "test_loss"], within=1e-9)
    fields = as_fields({**SMALL, "average": 0.6})
    process = launched(2, "train", "chain-chacal", "--out", str(tmp_path / "two"), "--quiet", *fields)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert_same_run(alone, load_run(tmp_path / "two"), ["loss", "test_loss"], within=1e-9)
