"""What a training step does on a GPU, tried without one: the host never waits, and is no less right for that."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import masking_utils

import workbench
from workbench.runs import load_run, read_log, states
from workbench.runs.config import RunConfig
from workbench.studies.fine_tuning import make_fresh
from workbench.tasks.text import SHIPPED
from workbench.training import TrainingError, preset_config, train_seeds
from workbench.training import finetune_step as finetune_module
from workbench.training import optimizer_step as module
from workbench.training.data import training_batches
from workbench.training.distributed import Processes
from workbench.training.finetune import finetune
from workbench.training.finetune_config import FinetuneConfig
from workbench.training.finetune_run import FineTuning
from workbench.training.finetune_step import FinetuneStep
from workbench.training.optimizer_step import Step
from workbench.training.training_run import make_learner

SMALL = {
    "batch_size": 4,
    "steps": 12,
    "eval_size": 4,
    "eval_every": 6,
    "log_every": 6,
    "save_every": 6,
    "device": "cpu",
}
CPU = torch.device("cpu")


@pytest.fixture
def not_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have steps on the CPU do as on a GPU, where the host does not wait."""
    for kind in (Step, FinetuneStep):
        made = kind.__init__

        def init(step: Any, *arguments: Any, made: Any = made) -> None:
            made(step, *arguments)
            step.waits = False

        monkeypatch.setattr(kind, "__init__", init)


def broken_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the loss of one step NaN, and of no other."""
    right, called = module.total_loss, iter(range(1000))

    def total_loss(*arguments: Any) -> Any:
        loss, figures = right(*arguments)
        return loss * (float("nan") if next(called) == step else 1.0), figures

    monkeypatch.setattr(module, "total_loss", total_loss)


@pytest.mark.parametrize("preset", ["chain-standard", "chain-chacal", "sort-tempered-hints", "multiply-seqvcr-pause"])
def test_no_step_asks_the_device_for_a_number(preset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the device `meta` there are no numbers: whoever asks for one gets an error."""
    config = preset_config(preset, {**SMALL, "log_every": 100, "eval_every": 100, "save_every": 100, "steps": 100})
    learner = make_learner(config, config.make_task(), CPU)
    for part in (learner.model, *learner.objectives.values()):
        part.to("meta")
    (group,) = learner.optimizer.param_groups
    group["params"] = [p for part in (learner.model, *learner.objectives.values()) for p in part.parameters()]
    learner.device = torch.device("meta")
    monkeypatch.setattr(learner.optimizer, "step", lambda: None)  # PyTorch's fused AdamW, which has no `meta`
    monkeypatch.setattr(module, "global_draws", lambda *_: nullcontext())
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    step, batches = Step(config, learner, Processes(0, 1, CPU)), training_batches(config.make_task(), config)
    learner.step = 1
    assert not step.waits
    for _ in range(3):
        assert step(next(batches), 1e-3) is not None
        learner.step += 1
    step.waits = True
    with pytest.raises(RuntimeError, match="meta"):
        step(next(batches), 1e-3)


TUNED: dict[str, Any] = {
    "text": str(SHIPPED["shakespeare"]),
    "attention": {"variant": "chacal", "gamma": 0.5},
    "seq_vcr": {"layer": -1, "projection": 8},
    "gamma_warmup": 4,
    "length": 16,
    **SMALL,
}


@pytest.fixture
def fresh(tmp_path: Path) -> str:
    """A GPT-2 with fresh weights."""
    make_fresh(tmp_path / "fresh", {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}, 0)
    return str(tmp_path / "fresh")


def test_no_step_of_a_fine_tuning_asks_either(fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seldom = {"log_every": 100, "eval_every": 100, "save_every": 100, "steps": 100}
    config = FinetuneConfig(model=fresh, **{**TUNED, **seldom})
    tuning = FineTuning(config, tmp_path / "tuned", False, Processes(0, 1, CPU))
    learner, parts = tuning.learner, (tuning.model, tuning.seq_vcr)
    (group,) = learner.optimizer.param_groups
    group["params"] = [p for part in parts if part is not None for p in part.to("meta").parameters()]
    learner.device = torch.device("meta")
    monkeypatch.setattr(learner.optimizer, "step", lambda: None)
    monkeypatch.setattr(finetune_module, "global_draws", lambda *_: nullcontext())
    monkeypatch.setattr(masking_utils, "find_packed_sequence_indices", lambda *_: None)  # where Transformers asks
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    learner.step = 1
    step, batches = tuning.optimizer_step(), tuning.batches()
    for _ in range(3):
        figures = step(next(batches), 1e-3)
        assert figures is not None
        tuning.record(figures, (), 0.0)
    step.waits = True
    with pytest.raises(RuntimeError, match="meta"):
        step(next(batches), 1e-3)


def test_a_fine_tuning_that_does_not_wait_is_the_same_and_finds_a_broken_gradient_at_its_step(
    fresh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    right = finetune_module.next_token
    kept = []
    for name in ("asking", "not waiting"):
        if name == "not waiting":
            request.getfixturevalue("not_waiting")
        finetune({"model": fresh, **TUNED}, tmp_path / name, progress=False)
        with monkeypatch.context() as patch:
            called = iter(range(1000))
            patch.setattr(
                finetune_module,
                "next_token",
                lambda *x, called=called: right(*x) * (float("nan") ** (next(called) == 8)),
            )
            with pytest.raises(TrainingError, match=r"not finite at step 9; the weights of step 8 are saved") as raised:
                finetune({"model": fresh, **TUNED}, tmp_path / f"{name} broken", progress=False)
        folders = [tmp_path / name / "model.safetensors", tmp_path / f"{name} broken" / "resume" / "step-8.safetensors"]
        tensors = [load_file(file) for file in folders]
        logs = [
            [{**row, "seconds": 0} for row in read_log(tmp_path / log / "metrics.jsonl")]
            for log in (name, f"{name} broken")
        ]
        kept.append((tensors, logs, str(raised.value).replace(name, "run")))
    (asked, logs, said), (others, other_logs, also_said) = kept
    assert logs == other_logs and said == also_said
    for one, two in zip(asked, others, strict=True):
        assert one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


def test_the_run_is_the_same_bit_for_bit(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    asking = workbench.train("sort-hints", tmp_path / "asking", progress=False, **SMALL)
    request.getfixturevalue("not_waiting")
    other = workbench.train("sort-hints", tmp_path / "other", progress=False, **SMALL)
    for one, two in zip(asking.model().parameters(), other.model().parameters(), strict=True):
        assert torch.equal(one, two)
    rows = [[{**row, "seconds": 0} for row in run.logged()] for run in (asking, other)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("at", [0, 3, 8, 11])
def test_a_gradient_that_is_not_finite_changes_nothing_and_is_found_at_its_step(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The gradients of the steps after it are finite, and change nothing either."""
    messages, tensors, logs = [], [], []
    for name in ("asking", "not waiting"):
        if name == "not waiting":
            request.getfixturevalue("not_waiting")
        with monkeypatch.context() as patch:
            broken_at(at, patch)
            with pytest.raises(TrainingError, match=f"not finite at step {at + 1};") as raised:
                workbench.train("chain-standard", tmp_path / name, progress=False, **SMALL)
        messages.append(str(raised.value).replace(name, "run"))
        run = load_run(tmp_path / name)
        (state, *_) = states(run.path)
        assert state.stem == f"step-{at}" and run.step() == at
        tensors.append(torch.cat([x.flatten() for x in run.model().parameters()]))
        logs.append([{**row, "seconds": 0} for row in run.logged()])
    assert messages[0] == messages[1] and torch.equal(*tensors) and logs[0] == logs[1]


def test_a_run_that_is_stopped_before_anyone_looked_goes_on_from_before_the_broken_step(
    not_waiting: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config: RunConfig = preset_config("chain-standard", SMALL)
    learner = make_learner(config, config.make_task(), CPU)
    step, batches = Step(config, learner, Processes(0, 1, CPU)), training_batches(config.make_task(), config)
    broken_at(2, monkeypatch)
    kept = []
    for _ in range(4):
        figures = step(next(batches), 1e-3)
        assert figures is not None
        learner.step, learner.tokens, learner.figures = learner.step + 1, learner.tokens + 10, {"loss": figures["loss"]}
        kept.append(torch.cat([x.detach().flatten() for x in learner.parameters]))
    assert not torch.equal(kept[0], kept[1]) and torch.equal(kept[1], kept[2]) and torch.equal(kept[1], kept[3])
    assert not learner.look() and (learner.step, learner.tokens) == (2, 20)
    assert torch.isfinite(torch.as_tensor(learner.figures["loss"])) and learner.look()
    assert {float(state["step"]) for state in learner.optimizer.state.values()} == {2.0}


def test_batches_go_to_a_gpu_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: seen.append("pinned") or x)
    monkeypatch.setattr(torch.Tensor, "to", lambda x, *to, **how: seen.append((*to, how)) or x)
    (batch,) = next(
        training_batches(preset_config("chain-standard", {}).make_task(), preset_config("chain-standard", SMALL))
    )
    seen.clear()
    batch.to("cuda")
    assert seen == ["pinned", (torch.device("cuda"), {"non_blocking": True})] * 3
    seen.clear()
    batch.to("cpu")
    assert seen == [(CPU, {})] * 3


@pytest.mark.parametrize(("precision", "expected"), [("tf32", "high"), ("float32", "highest")])
def test_tf32_is_for_the_training_that_asks_for_it(
    precision: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, seen = Step.__call__, []

    def call(step: Step, *arguments: Any) -> Any:
        seen.append(torch.get_float32_matmul_precision())
        return right(step, *arguments)

    monkeypatch.setattr(Step, "__call__", call)
    workbench.train("chain-standard", tmp_path / "run", progress=False, **SMALL, precision=precision)
    assert set(seen) == {expected} and torch.get_float32_matmul_precision() == "highest"
    train_seeds("chain-standard", tmp_path / "stack", 2, progress=False, **SMALL, precision=precision)
    assert torch.get_float32_matmul_precision() == "highest"


def test_a_compiled_model_trains_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, modes = torch.compile, []

    def compile_eagerly(model: Any, mode: str) -> Any:
        modes.append(mode)
        return compiled(model, backend="eager")  # what is traced, without the minutes that generating its code takes

    monkeypatch.setattr(torch, "compile", compile_eagerly)
    plain = workbench.train("sort-tempered", tmp_path / "plain", progress=False, **SMALL)
    assert not modes
    run = workbench.train("sort-tempered", tmp_path / "run", progress=False, **SMALL, compile="reduce-overhead")
    assert modes == ["reduce-overhead"] and load_run(run.path).config.compile == "reduce-overhead"
    for one, two in zip(plain.model().parameters(), run.model().parameters(), strict=True):
        torch.testing.assert_close(one, two)


def test_what_cannot_be_compiled_is_refused_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot keep the parts of accumulate"):
        preset_config("chain-standard", {"compile": "reduce-overhead", "accumulate": 2})
    with pytest.raises(ValueError, match="cannot be stacked: a compiled model"):
        train_seeds("chain-standard", tmp_path / "stack", 2, progress=False, **SMALL, compile="default")
    with pytest.raises(ValueError, match="compile"):
        preset_config("chain-standard", {"compile": "fast"})
