"""A stack of seeds: each run what it would have been alone, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from tests.training.histories import differences
from workbench.cli import main
from workbench.runs import load_run
from workbench.training import TrainingError, resume_seeds, train_seeds
from workbench.training.seed_stack import StackedStep

COMMON: dict[str, Any] = {"steps": 12, "precision": "float64", "eval_size": 16, "eval_every": 5, "log_every": 1}
SMALL = {"d_model": 16, "n_heads": 2}
SEQ_VCR = {"seq_vcr": {"layer": -1, "projection": 12}}
STACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "demo": ("chain-chacal", {"batch_size": 16}),
    "small, so that all go through at once": ("chain-chacal", {"batch_size": 4, "model": SMALL}),
    "standard": ("chain-standard", {"batch_size": 4, "model": SMALL}),
    "sinusoidal positions": (
        "chain-standard",
        {"batch_size": 4, "model": {**SMALL, "positions": "sinusoidal", "activation": "gelu_tanh"}},
    ),
    "positions that are shifted": (
        "sort-standard",
        {"batch_size": 4, "model": {**SMALL, "positions": "learned"}, "shift_positions": True},
    ),
    "as Llama": (
        "chain-chacal",
        {
            "batch_size": 4,
            "model": {**SMALL, "positions": "rotary", "n_kv_heads": 1, "activation": "swiglu", "norm": "rmsnorm"},
        },
    ),
    "attention-only, a temperature for each head": (
        "chain-standard",
        {"batch_size": 4, "model": {**SMALL, "d_mlp": 0, "attention": "scalable"}},
    ),
    "tied": ("chain-standard", {"batch_size": 4, "model": {**SMALL, "tied": True}}),
    "tempered, turns with a hint": ("sort-tempered", {"batch_size": 4, "model": SMALL, "task": {"hints": "successor"}}),
    "tempered by input": (
        "sort-tempered",
        {"batch_size": 4, "model": {**SMALL, "attention": {"n": "input"}}},
    ),
    "widths that differ": (
        "sort-standard",
        {"batch_size": 4, "model": SMALL, "objectives": SEQ_VCR, "task": {"hints": "count"}, "mixing": "together"},
    ),
    "seq_vcr": ("multiply-seqvcr", {"batch_size": 4, "model": SMALL}),
    "seq_vcr of the final norm, padding left out": (
        "arithmetic-seqvcr",
        {"batch_size": 4, "model": SMALL, "objectives": {"seq_vcr": {"at": "ln_final.hook_out"}}},
    ),
    "finite sets": ("sort-standard", {"batch_size": 4, "model": SMALL, "train_size": 20, "task": {"hints": "count"}}),
}


@pytest.mark.parametrize("name", STACKS)
def test_each_member_matches_its_single_run(name: str, tmp_path: Path) -> None:
    preset, changes = STACKS[name]
    stacked = train_seeds(preset, tmp_path / "stack", 3, progress=False, **COMMON, **changes)
    assert [run.path for run in stacked] == [tmp_path / "stack" / f"seed-{seed}" for seed in range(3)]
    for seed, run in enumerate(stacked):
        alone = workbench.train(preset, out=tmp_path / f"{seed}", progress=False, seed=seed, **COMMON, **changes)
        assert run.config == alone.config and run.finished
        a, b = run.model().state_dict(), alone.model().state_dict()
        assert max((a[key] - b[key]).abs().max().item() for key in a) < 1e-9
        first, second = (one.metrics().drop(columns="seconds") for one in (run, alone))
        assert list(first) == list(second) and (first - second).abs().max().max() < 1e-9


def test_eight_seeds_of_the_demo_model_match_their_single_runs(tmp_path: Path) -> None:
    settings = {**COMMON, "steps": 30, "eval_every": 30}
    stacked = train_seeds("chain-chacal", tmp_path / "stack", 8, progress=False, **settings)
    for seed, run in enumerate(stacked):
        alone = workbench.train("chain-chacal", out=tmp_path / f"{seed}", progress=False, seed=seed, **settings)
        a, b = run.model().state_dict(), alone.model().state_dict()
        assert max((a[key] - b[key]).abs().max().item() for key in a) < 1e-6


def test_a_stack_that_was_stopped_is_finished_run_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**COMMON, "batch_size": 4, "model": SMALL, "task": {"hints": "successor"}, "save_every": 4}
    whole = train_seeds("sort-standard", tmp_path / "whole", [3, 5], progress=False, **settings)
    step = StackedStep.__call__

    def interrupted(self: StackedStep, *arguments: Any) -> Any:
        if self.learners[0].step == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StackedStep, "__call__", interrupted)
        stopped = train_seeds("sort-standard", tmp_path / "stopped", [3, 5], progress=False, **settings)
    for before, run in zip(whole, stopped, strict=True):
        assert run.step() == 7 and not run.finished
        again = workbench.resume(run.path, progress=False)
        a, b = before.model().state_dict(), again.model().state_dict()
        assert max((a[key] - b[key]).abs().max().item() for key in a) < 1e-9


def test_a_stack_that_was_stopped_goes_on_as_a_stack_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In float32, where a run that went on by itself would be another by rounding; one of them reaches its target."""
    settings = {
        **COMMON,
        "batch_size": 4,
        "model": SMALL,
        "save_every": 4,
        "precision": "float32",
        "objectives": SEQ_VCR,
    }
    settings |= {"steps": 30, "stop_at": 0.045}
    whole = train_seeds("chain-chacal", tmp_path / "whole", 3, progress=False, **settings)
    assert len({run.step() for run in whole}) > 1, "they end at different steps"
    step = StackedStep.__call__

    def interrupted(self: StackedStep, *arguments: Any) -> Any:
        if self.learners[0].step in (6, 7, 18):
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StackedStep, "__call__", interrupted)
        train_seeds("chain-chacal", tmp_path / "stopped", 3, progress=False, **settings)
        with pytest.raises(ValueError, match=r"not finished: `workbench resume .*stopped` goes on"):
            train_seeds("chain-chacal", tmp_path / "stopped", 3, progress=False, **settings)
        shutil.rmtree(tmp_path / "stopped" / "seed-1")  # as if killed before it was made; the others' states stay
        for path in (tmp_path / "stopped").glob("seed-*/resume/step-*"):
            path.unlink()
        codes = [main(["resume", str(tmp_path / "stopped"), "--quiet"]) for _ in range(3)]
    assert codes == [130, 130, 130] and f"`workbench resume {tmp_path}/stopped` goes on" in capsys.readouterr().out
    assert main(["resume", str(tmp_path / "stopped"), "--quiet"]) == 0
    assert not differences(tmp_path / "whole", tmp_path / "stopped")


def test_runs_of_a_stack_that_cannot_go_on_together_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {**COMMON, "batch_size": 4, "model": SMALL, "save_every": 4}
    step = StackedStep.__call__

    def interrupted(self: StackedStep, *arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(StackedStep, "__call__", interrupted)
        train_seeds("chain-chacal", tmp_path, 2, progress=False, **settings)
    only = next((tmp_path / "seed-0").glob("resume/step-*"))
    only.rename(only.with_name("step-2.safetensors"))
    with pytest.raises(ValueError, match=r"no step in common \(seed-0 at 2, seed-1 at 1\)"):
        resume_seeds(tmp_path, progress=False)
    (tmp_path / "seed-0" / "resume" / "stack.json").write_text('{"seeds": ["../x"]}')
    with pytest.raises(ValueError, match=r"stack.json is corrupted: it does not list seeds"):
        resume_seeds(tmp_path, progress=False)
    with pytest.raises(ValueError, match=r"there is no stack of seeds"):
        resume_seeds(tmp_path / "seed-0", progress=False)


def test_a_run_whose_loss_breaks_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    settings = {**COMMON, "batch_size": 4, "model": SMALL, "precision": "float32"}
    whole = train_seeds("chain-chacal", tmp_path / "whole", 3, progress=False, **settings)
    step, weights = StackedStep.__call__, {}

    def broken(self: StackedStep, *arguments: Any) -> Any:
        if self.learners[0].step == 5:
            weights["before"] = self.learners[1].model.unembedding.weight.detach().clone()
            self.learners[1].model.token_embedding.weight.data[:] = float("inf")
        return step(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StackedStep, "__call__", broken)
        with pytest.raises(TrainingError, match=r"not finite at step 6; .* saved in .*seed-1; try a lower") as raised:
            train_seeds("chain-chacal", tmp_path / "stack", 3, progress=False, **settings)
    assert "seed-0" not in str(raised.value)
    kept = load_run(tmp_path / "stack" / "seed-1")
    assert not kept.finished and kept.step() == 5
    assert torch.equal(kept.model().unembedding.weight, weights["before"])
    with pytest.raises(TrainingError, match="not finite at step 6"):  # it goes on from there, and is as broken
        workbench.resume(kept.path, progress=False)
    for seed in (0, 2):
        run = load_run(tmp_path / "stack" / f"seed-{seed}")
        a, b = run.model().state_dict(), whole[seed].model().state_dict()
        assert run.finished and max((a[key] - b[key]).abs().max().item() for key in a) < 1e-5


@pytest.mark.parametrize(
    ("seeds", "changes", "said"),
    [
        (2, {"model": {"dropout": 0.1}}, "dropout draws other numbers"),
        (2, {"accumulate": 2}, "accumulate saves the memory"),
        (2, {"optimizer": "muon"}, "muon takes one matrix after the other"),
        (2, {"precision": "float16"}, "float16 scales the loss"),
        ([1, 1], {}, r"a seed is there twice in \[1, 1\]"),
        (0, {}, "there is no seed"),
    ],
)
def test_what_cannot_be_stacked_is_refused_before_anything_is_written(
    seeds: Any, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=said):
        train_seeds("chain-chacal", tmp_path / "out", seeds, progress=False, steps=2, **changes)
    assert not (tmp_path / "out").exists()


def test_seeds_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fields = ["--steps", "3", "--batch_size", "4", "--eval_size", "8", "--quiet"]
    assert main(["train", "chain-chacal", "--out", str(tmp_path / "runs"), "--seeds", "2", *fields]) == 0
    said = capsys.readouterr().out
    assert "seed-0: accuracy" in said and f"inspect {tmp_path}/runs/seed-0 {tmp_path}/runs/seed-1" in said
    assert json.loads((tmp_path / "runs" / "seed-1" / "config.json").read_text())["seed"] == 1
    assert main(["train", "chain-chacal", "--out", str(tmp_path / "runs"), "--seeds", "3", *fields]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["train", "chain-chacal", "--out", str(tmp_path / "runs" / "seed-0"), "--seeds", "2", *fields]) == 2
    assert "is a run itself" in capsys.readouterr().err and not (tmp_path / "runs" / "seed-2").exists()
