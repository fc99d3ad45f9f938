"""A run that several processes train, or that computes its batches in parts, is the run that one process trains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from workbench.cli import main
from workbench.runs import Run, load_run

FIGURES = ["loss", "gradient_norm", "accuracy"]
SHAPE: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 8,
    "eval_size": 8,
    "eval_every": 50,
    "log_every": 1,
    "precision": "float64",
}
SEQ_VCR = {"objectives": {"seq_vcr": {"layer": -1, "projection": 12, "covariance_weight": 0.1}}}


def launched(n: int, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(n), "--master-port", "0"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "workbench", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def as_fields(settings: dict[str, Any], prefix: str = "--") -> list[str]:
    fields: list[str] = []
    for name, value in settings.items():
        nested = isinstance(value, dict)
        fields += as_fields(value, f"{prefix}{name}.") if nested else [f"{prefix}{name}={value}"]
    return fields


def assert_same_run(first: Run, second: Run, figures: list[str], within: float = 1e-6) -> None:
    difference = first.metrics()[figures] - second.metrics()[figures]
    assert not difference.isna().any().any() or difference.isna().equals(first.metrics()[figures].isna())
    assert difference.abs().max().max() < within
    a, b = first.model().state_dict(), second.model().state_dict()
    assert max((a[name] - b[name]).abs().max().item() for name in a) < within


@pytest.mark.parametrize(
    ("preset", "changes"),
    [("chain-standard", {}), ("chain-chacal", {}), ("chain-chacal", SEQ_VCR), ("chain-chacal", {"train_size": 64})],
    ids=["standard", "chacal", "seq_vcr", "finite set"],
)
def test_two_processes_have_the_loss_curve_of_one(preset: str, changes: dict[str, Any], tmp_path: Path) -> None:
    settings = {**SHAPE, "steps": 200, **changes}
    process = launched(2, "train", preset, "--out", str(tmp_path / "two"), "--quiet", *as_fields(settings))
    alone = workbench.train(preset, out=tmp_path / "one", progress=False, **settings)
    said, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert said.count("trained ") == 1  # one of them speaks
    together = load_run(tmp_path / "two")
    assert together.log()[0]["processes"] == 2
    assert_same_run(alone, together, [*FIGURES, *(["seq_vcr"] if changes is SEQ_VCR else [])])


def test_processes_that_cannot_share_a_batch_say_so_once_and_write_nothing(tmp_path: Path) -> None:
    fields = as_fields({**SHAPE, "batch_size": 7, "steps": 3})
    process = launched(2, "train", "chain-chacal", "--out", str(tmp_path / "run"), "--quiet", *fields)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0 and not (tmp_path / "run").exists()
    own = [line for line in errors.splitlines() if line.startswith("workbench:")]
    assert own == ["workbench: a step has 7 sequences of main, which 2 processes cannot share equally"]


def test_two_processes_that_were_stopped_go_on_together(tmp_path: Path) -> None:
    settings = {**SHAPE, "steps": 300, "save_every": 10, "model": {"d_model": 16, "n_heads": 2, "dropout": 0.1}}
    whole = launched(2, "train", "chain-chacal", "--out", str(tmp_path / "whole"), "--quiet", *as_fields(settings))
    assert whole.wait(timeout=300) == 0
    process = launched(2, "train", "chain-chacal", "--out", str(tmp_path / "run"), "--quiet", *as_fields(settings))
    deadline = time.monotonic() + 120
    while not list((tmp_path / "run").glob("resume/step-*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=120)
    assert not load_run(tmp_path / "run").finished
    again = launched(2, "resume", str(tmp_path / "run"), "--quiet")
    _, errors = again.communicate(timeout=300)
    assert again.returncode == 0, errors
    first, second = (load_run(tmp_path / name).model().state_dict() for name in ("whole", "run"))
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_a_batch_in_parts_is_the_whole_batch_for_losses_across_it_too(parts: int, tmp_path: Path) -> None:
    settings = {**SHAPE, **SEQ_VCR, "steps": 20, "task": {"hints": "successor"}, "mixing": "together"}
    whole = workbench.train("sort-standard", out=tmp_path / "whole", progress=False, **settings)
    split = workbench.train("sort-standard", out=tmp_path / "parts", progress=False, **settings, accumulate=parts)
    assert_same_run(whole, split, [*FIGURES, "seq_vcr", "loss/successor"], within=1e-9)


def test_dropout_is_the_same_in_both_passes_over_a_part(tmp_path: Path) -> None:
    """With one part, the second pass is the first again, or the gradient would belong to another loss."""
    settings = {**SHAPE, "steps": 3, "model": {"d_model": 16, "n_heads": 2, "dropout": 0.3}, "batch_size": 2}
    parts = workbench.train("chain-standard", out=tmp_path / "parts", progress=False, **settings, accumulate=2)
    from workbench.training.distributed import Processes
    from workbench.training.optimizer_step import Step
    from workbench.training.training_run import make_learner

    learner = make_learner(parts.config, parts.config.make_task(), torch.device("cpu"))
    step, batch = Step(parts.config, learner, Processes.started("cpu")), parts.task().sample(2, workbench.generator(0))

    def loss() -> float:
        with torch.no_grad():
            return _loss_of(step, batch)

    step.backward(batch, 1.0)
    weight = learner.model.unembedding.weight
    assert weight.grad is not None
    gradient, nudge = weight.grad[0, 0].item(), 1e-6
    with torch.no_grad():
        weight[0, 0] += nudge
    above = loss()
    with torch.no_grad():
        weight[0, 0] -= 2 * nudge
    assert (above - loss()) / (2 * nudge) == pytest.approx(gradient, rel=1e-5)


def _loss_of(step: Any, batch: Any) -> float:
    """The loss as `accumulate=2` computes it: sequence by sequence, each with the dropout of its part."""
    logits = []
    for i in range(2):
        with step._draws("main", i):
            logits.append(step.learner.model(batch[i : i + 1].tokens))
    logits = torch.cat(logits)
    return step.learner.objectives["next_token"](logits, {}, batch)[0].item()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_trains_and_keeps_weights_in_float32(precision: str, tmp_path: Path) -> None:
    settings = {**SHAPE, "precision": precision, "steps": 40, "save_every": 7}
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **settings)
    losses = run.metrics()["loss"]
    assert losses.iloc[-5:].mean() < losses.iloc[:5].mean()
    assert next(run.model().parameters()).dtype == torch.float32


def test_a_float64_run_opens_in_float64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, **SHAPE, steps=2)
    assert next(run.model().parameters()).dtype == torch.float64
    assert main(["inspect", str(run.path), "--n", "8", "--quiet"]) == 0
