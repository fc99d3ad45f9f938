"""A run that is stopped, killed, starved of disk or damaged goes on as if nothing had happened."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import workbench
from workbench.cli import main
from workbench.runs import load_run, scan_runs, states
from workbench.tasks import Batch
from workbench.training import TrainingError, preset_config
from workbench.training.distributed import Processes
from workbench.training.optimizer_step import Step
from workbench.training.training_run import make_learner
from workbench.util import files
from workbench.util.files import load_tensors

# Dropout and a projection make every kind of state matter: random numbers, and parameters beside the model's.
SMALL: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2, "dropout": 0.1},
    "objectives": {"seq_vcr": {"layer": -1, "projection": 12}},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 60,
    "eval_every": 25,
    "log_every": 1,
    "save_every": 7,
    "checkpoint_every": 20,
}


def train(folder: Path, **changes: Any) -> None:
    torch.set_num_threads(1)
    workbench.train("chain-chacal", out=folder, progress=False, **{**SMALL, **changes})


def in_a_process_of_its_own(action: Callable[..., None], *arguments: Any) -> Any:
    process = multiprocessing.get_context("fork").Process(
        target=action, args=arguments
    )  # no daemon: those have no workers
    process.start()
    return process


def kill(process: Any, after: float) -> None:
    process.join(after)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()


def same(first: Path, second: Path) -> bool:
    a, b = (load_tensors(folder / "weights.safetensors")[0] for folder in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    process = in_a_process_of_its_own(train, folder)
    process.join()
    assert process.exitcode == 0
    return folder


def resumed(folder: Path) -> None:
    process = in_a_process_of_its_own(_resume, folder)
    process.join()
    assert process.exitcode == 0


def _resume(folder: Path) -> None:
    torch.set_num_threads(1)
    workbench.resume(folder, progress=False)


def check(folder: Path, undisturbed: Path) -> None:
    """It opens, goes on, ends the same, and did nothing twice but what came after a state."""
    assert load_run(folder).step() <= SMALL["steps"]
    resumed(folder)
    run = load_run(folder)
    assert run.finished and same(folder, undisturbed)
    rows = [row for row in run.log() if "event" not in row]
    steps = [row["step"] for row in rows]
    again = len(steps) - len(set(steps))
    assert set(steps) == set(range(1, 61)) and again <= SMALL["save_every"]
    figures = ["loss", "accuracy", "seq_vcr", "learning_rate", "gradient_norm"]
    before, after = (load_run(path).metrics()[figures] for path in (undisturbed, folder))
    assert before.equals(after)
    assert not list(folder.glob("**/.*")) and sorted(p.name for p in folder.iterdir()) == sorted(
        p.name for p in undisturbed.iterdir()
    )


def _kill_at_random_moments(undisturbed: Path, folder: Path, times: int) -> None:
    started = time.perf_counter()
    process = in_a_process_of_its_own(train, folder / "timed")
    process.join()
    whole = time.perf_counter() - started
    rng = random.Random(0)
    for number in range(times):
        path = folder / f"run-{number}"
        process = in_a_process_of_its_own(train, path)
        kill(process, rng.uniform(0, whole))
        if path.exists():
            check(path, undisturbed)


def test_a_run_killed_at_random_moments_ends_as_if_it_had_not_been(undisturbed: Path, tmp_path: Path) -> None:
    _kill_at_random_moments(undisturbed, tmp_path, 4)


@pytest.mark.slow
def test_a_run_killed_at_50_random_moments_ends_as_if_it_had_not_been(undisturbed: Path, tmp_path: Path) -> None:
    _kill_at_random_moments(undisturbed, tmp_path, 50)


class Deadly:
    """`write_atomically` that kills its process in the middle of the given write, half the bytes written."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, path: Path, content: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            path.with_name(f".{path.name}.partial").write_bytes(content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, content)


write = files.write_atomically


def _train_until_write(folder: Path, at: int) -> None:
    files.write_atomically = Deadly(at)  # type: ignore[assignment]
    train(folder)


@pytest.mark.parametrize("at", [0, 3, 10])  # states, checkpoints and the final weights are 12 writes
def test_a_kill_inside_a_write_loses_nothing(at: int, undisturbed: Path, tmp_path: Path) -> None:
    process = in_a_process_of_its_own(_train_until_write, tmp_path / "run", at)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    check(tmp_path / "run", undisturbed)


def test_resuming_a_run_killed_before_its_first_state_starts_it_afresh(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    (folder / "weights.safetensors").unlink()
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.jsonl").write_text('{"step": 1, "sec')
    (folder / "resume").mkdir()
    run = load_run(folder)
    assert run.step() == 0 and not run.finished
    with pytest.raises(ValueError, match=r"has no weights yet; `workbench resume .*run` goes on training"):
        run.model()
    check(folder, undisturbed)


def test_resuming_a_finished_run_changes_nothing(undisturbed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def contents() -> dict[str, tuple[bytes, int]]:
        return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in undisturbed.rglob("*") if p.is_file()}

    before = contents()
    assert main(["resume", str(undisturbed)]) == 0
    assert "is finished; there is nothing to resume" in capsys.readouterr().out
    assert contents() == before


@pytest.mark.parametrize("workers", [0, 2])  # making workers draws from PyTorch's generator, as dropout does
def test_ctrl_c_stops_after_the_step_and_goes_on(
    workers: int, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step.__call__

    def interrupted(self: Step, batches: tuple[Batch, ...], rate: float) -> Any:
        if self.learner.step == 31:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, batches, rate)

    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(Step, "__call__", interrupted)
        train(tmp_path / "run", workers=workers)
    torch.set_num_threads(threads)
    run = load_run(tmp_path / "run")
    assert run.step() == 32 and not run.finished
    tokens = run.task().sample(2, workbench.generator(0)).tokens
    assert run.model()(tokens).shape == (2, 8, 8)
    check(run.path, undisturbed)


def test_figures_that_went_through_a_state_are_logged_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hint that has its turn before the stop and not again before the log: in float64 they need all their bits."""
    short: dict[str, Any] = {**SMALL, "task": {"max_length": 5, "hints": "count"}, "precision": "float64"}
    short |= {"steps": 12, "log_every": 3, "eval_every": 12, "workers": 0}
    workbench.train("sort-standard", tmp_path / "whole", progress=False, **short)
    step = Step.__call__

    def interrupted(self: Step, batches: tuple[Batch, ...], rate: float) -> Any:
        if self.learner.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, batches, rate)

    with monkeypatch.context() as patch:
        patch.setattr(Step, "__call__", interrupted)
        workbench.train("sort-standard", tmp_path / "stopped", progress=False, **short)
    workbench.resume(tmp_path / "stopped", progress=False)
    first, second = (load_run(tmp_path / name).metrics().drop(columns="seconds") for name in ("whole", "stopped"))
    assert "loss/count" in first and first.equals(second)


def global_generators() -> tuple[Any, ...]:
    name, keys, *rest = np.random.get_state()
    return torch.get_rng_state().tolist(), random.getstate(), name, keys.tolist(), rest


@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_neither_follows_nor_moves_the_global_generators(accumulate: int, tmp_path: Path) -> None:
    short = {"steps": 12, "eval_every": 5, "workers": 2, "accumulate": accumulate}
    threads = torch.get_num_threads()
    for seed in (0, 1):
        torch.manual_seed(seed), np.random.seed(seed), random.seed(seed)
        before = global_generators()
        train(tmp_path / f"{seed}", **short)
        assert global_generators() == before
    torch.set_num_threads(threads)
    assert same(tmp_path / "0", tmp_path / "1")
    first, second = (load_run(tmp_path / f"{seed}").metrics().drop(columns="seconds") for seed in (0, 1))
    assert first.equals(second)


def test_dropout_depends_on_the_step_and_the_process_alone() -> None:
    """Each step, head, part of a batch and process has masks of its own; asked again, they are the same."""
    config = preset_config("chain-chacal", SMALL)
    learner = make_learner(config, config.make_task(), torch.device("cpu"))
    ones, masks = torch.ones(64), []
    for rank, step, head, part in [(0, 0, "main", 0), (1, 0, "main", 0), (0, 1, "main", 0), (0, 0, "x", 0)] * 2:
        learner.step = step
        one = Step(config, learner, Processes(rank, 2, torch.device("cpu")))
        torch.rand(rank + step)  # what else is drawn has no part in it
        with one._draws(head, part):
            masks.append(torch.dropout(ones, 0.5, train=True))
    assert all(torch.equal(mask, again) for mask, again in zip(masks[:4], masks[4:], strict=True))
    assert len({tuple(mask.tolist()) for mask in masks}) == 4


def test_a_run_has_one_writer(tmp_path: Path) -> None:
    process = in_a_process_of_its_own(train, tmp_path / "run")
    while not (tmp_path / "run" / "resume" / ".lock").exists():
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(ValueError, match="being trained by another process"):
        workbench.resume(tmp_path / "run", progress=False)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    workbench.resume(tmp_path / "run", progress=False)  # a dead process holds nothing


def stopped(undisturbed: Path, folder: Path) -> Path:
    """A run with its two last states, killed at step 60 before its weights were written."""
    process = in_a_process_of_its_own(_train_until_write, folder, 11)
    process.join()
    assert [p.name for p in states(folder)] == ["step-56.safetensors", "step-49.safetensors"]
    return folder


def test_any_damage_to_the_last_state_is_found_and_the_one_before_is_taken(undisturbed: Path, tmp_path: Path) -> None:
    whole = stopped(undisturbed, tmp_path / "whole")
    last = states(whole)[0]
    content, rng = last.read_bytes(), random.Random(0)
    for number in range(200):
        if number % 4 == 0:
            last.write_bytes(content[: rng.randrange(len(content))])
        else:
            place = rng.randrange(len(content)) if number % 2 else rng.randrange(min(len(content), 4000))
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.randrange(8)
            last.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"step-56.safetensors (is|does)"):
            load_tensors(last)
    run = load_run(whole)
    assert run.model() is not None  # of the state before
    resumed(whole)
    again = load_run(whole)
    assert same(whole, undisturbed)
    (event,) = [row for row in again.log() if row.get("event") == "resumed"]
    assert event["step"] == 49 and "step-56.safetensors is" in event["problems"][0]


def test_a_run_whose_states_are_all_damaged_starts_afresh_and_says_so(undisturbed: Path, tmp_path: Path) -> None:
    folder = stopped(undisturbed, tmp_path / "run")
    for path in states(folder):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"has no weights yet \(.*truncated or corrupted"):
        load_run(folder).model()
    resumed(folder)
    (event,) = [row for row in load_run(folder).log() if row.get("event") == "resumed"]
    assert same(folder, undisturbed) and event["step"] == 0 and len(event["problems"]) == 2


def test_states_that_are_damaged_do_not_push_out_those_that_come_after(undisturbed: Path, tmp_path: Path) -> None:
    folder = stopped(undisturbed, tmp_path / "run")
    for path in states(folder):
        path.write_bytes(path.read_bytes()[:-1])
    again = in_a_process_of_its_own(_resume_until_write, folder, 3)
    again.join()
    assert [path.name for path in states(folder)] == ["step-14.safetensors", "step-7.safetensors"]
    assert load_run(folder).model() is not None
    resumed(folder)
    assert same(folder, undisturbed)


def _resume_until_write(folder: Path, at: int) -> None:
    files.write_atomically = Deadly(at)  # type: ignore[assignment]
    _resume(folder)


def test_states_of_another_model_are_refused_not_trained_over(undisturbed: Path, tmp_path: Path) -> None:
    folder = stopped(undisturbed, tmp_path / "run")
    config = json.loads((folder / "config.json").read_text())
    config["model"]["d_mlp"] = 32
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"does not fit its config: layers.0.mlp.fc_in.bias should be"):
        workbench.resume(folder, progress=False)
    assert len(states(folder)) == 2


def test_a_full_disk_is_one_clear_line_and_nothing_is_lost(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def full(path: Path, content: bytes) -> None:
        if "step-28" in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, content)

    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_atomically", full)
        with pytest.raises(TrainingError, match=r"cannot write .*step-28.*No space left on device; step 21 is kept"):
            train(tmp_path / "run")
    torch.set_num_threads(threads)
    assert load_run(tmp_path / "run").step() == 21
    check(tmp_path / "run", undisturbed)


@pytest.mark.parametrize("by", ["a state", "Ctrl-C"])
def test_a_run_that_is_moved_while_it_trains_says_so_and_goes_on_where_it_is(
    by: str, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Step.__call__

    def moved(self: Step, batches: tuple[Batch, ...], rate: float) -> Any:
        if self.learner.step == 15:
            (tmp_path / "run").rename(tmp_path / "moved")
            if by == "Ctrl-C":
                os.kill(os.getpid(), signal.SIGINT)
        return step(self, batches, rate)

    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(Step, "__call__", moved)
        with pytest.raises(TrainingError) as caught:
            train(tmp_path / "run")
    torch.set_num_threads(threads)
    told = (
        f"{tmp_path / 'run'} was moved or deleted while it trained; what was kept until then is in it, and `workbench"
    )
    assert str(caught.value).startswith(told) and not (tmp_path / "run").exists()
    assert load_run(tmp_path / "moved").step() == 14
    check(tmp_path / "moved", undisturbed)


def test_unfinished_runs_are_listed_and_a_second_training_names_resume(undisturbed: Path, tmp_path: Path) -> None:
    folder = stopped(undisturbed, tmp_path / "run")
    found, problems = scan_runs(tmp_path)
    assert [run.name for run in found] == ["run"] and not problems
    with pytest.raises(ValueError, match=r"not finished: `workbench resume .*run` goes on with it"):
        train(folder)
