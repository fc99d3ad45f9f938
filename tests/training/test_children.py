"""However a command that starts processes ends, none of them outlives it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.training.histories import Forked, Typed, warm
from tests.training.test_distributed import launched
from workbench.runs import load_run
from workbench.runs.compiled import compile_run
from workbench.tasks import stream
from workbench.tasks.stream import in_order

SECONDS = 3.0  # to save what there is, and end: PyTorch's own workers look for their parent every 5
TINY = ["--task.n=8", "--task.k=2", "--model.d_model=8", "--model.n_heads=2", "--batch_size=4", "--eval_size=8"]
LONG = [*TINY, "--steps=1000000", "--log_every=1000", "--eval_every=100000", "--workers=2", "--quiet"]


def train(place: Path) -> list[str]:
    return ["train", "chain-chacal", "--out", str(place / "run"), *LONG]


def stack(place: Path) -> list[str]:
    return ["train", "chain-chacal", "--out", str(place / "runs"), "--seeds", "2", *LONG]


def sweep(place: Path) -> list[str]:
    fields = "\n".join(field.removeprefix("--") for field in LONG[:-1])
    (place / "s.toml").write_text(f'preset = "chain-chacal"\n[settings]\n{fields}\n[grid]\nseed = [0, 1]\n')
    return ["sweep", str(place / "s.toml"), "--out", str(place / "runs"), "--workers", "2", "--quiet"]


def data(place: Path) -> list[str]:
    return ["data", "sorting", "--count", "100000000", "--workers", "2", "--out", str(place / "s.jsonl"), "--quiet"]


COMMANDS: dict[Callable[[Path], list[str]], int] = {train: 2, stack: 4, sweep: 2 + 4, data: 2}
"""How many processes each starts."""


def end(process: Forked, number: int, n: int, seconds: float = SECONDS) -> None:
    """Send a signal once all of its processes are there; neither it nor they are there a moment later."""
    until = time.monotonic() + 60
    while len(started := psutil.Process(process.pid).children(recursive=True)) < n:
        assert time.monotonic() < until and process.wait(0) is None, "it did not start its processes"
        time.sleep(0.02)
    time.sleep(0.2)  # into their work
    os.kill(process.pid, number)
    assert process.wait(30) is not None
    alive = psutil.wait_procs(started, timeout=seconds)[1]
    for left in alive:
        left.kill()
    assert not alive and process.gone()


@pytest.fixture(scope="module", autouse=True)
def warmed(tmp_path_factory: pytest.TempPathFactory) -> None:
    warm(tmp_path_factory.mktemp("warm"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_killed_command_leaves_no_process(command: Callable[[Path], list[str]], tmp_path: Path) -> None:
    end(Forked(command(tmp_path), tmp_path / "said"), signal.SIGKILL, COMMANDS[command])


def _end_without_telling_the_workers() -> None:
    drawn = in_order(str, range(1000), 2)
    assert next(drawn) == "0"
    drawn._shutdown = True  # type: ignore[attr-defined]  # as where a second Ctrl-C came while it told them


def test_workers_that_were_not_told_to_end_do_not_keep_python_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python sends them SIGTERM as it ends, and waits for them."""
    monkeypatch.setattr(stream, "SECONDS_TO_END", 1)
    process = multiprocessing.get_context("fork").Process(target=_end_without_telling_the_workers)
    process.start()
    process.join(20)
    ended = process.exitcode
    process.kill()
    assert ended == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_whole_group_lets_training_save(number: int, tmp_path: Path) -> None:
    """As a terminal and a cluster send it: workers that obeyed too would leave training waiting for a batch."""
    process = Forked(train(tmp_path), tmp_path / "said")
    until = time.monotonic() + 60
    while not (log := tmp_path / "run" / "metrics.jsonl").exists() or '"step"' not in log.read_text():
        assert time.monotonic() < until and process.wait(0) is None
        time.sleep(0.02)
    os.killpg(process.pid, number)
    assert process.wait(30) == 130, (tmp_path / "said").read_text()
    assert process.gone() and load_run(tmp_path / "run").step() > 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_stopped_command_leaves_no_process(command: Callable[[Path], list[str]], number: int, tmp_path: Path) -> None:
    end(Forked(command(tmp_path), tmp_path / "said"), number, COMMANDS[command])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_typed_command_leaves_no_process(command: Callable[[Path], list[str]], number: int, tmp_path: Path) -> None:
    """A sweep's worker looks whether the sweep lives once it has imported what it needs, which takes its time."""
    end(Typed(command(tmp_path), tmp_path / "said"), number, COMMANDS[command], seconds=20.0)


@pytest.mark.slow
def test_processes_of_a_killed_torchrun_save_and_end(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["train", "chain-chacal", "--out", str(run), *TINY, "--steps=1000000", "--save_every=50", "--quiet"]
    process = launched(2, *arguments)
    until = time.monotonic() + 120
    while not list(run.glob("resume/step-*.safetensors")):
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.05)
    ranks = psutil.Process(process.pid).children(recursive=True)
    assert len(ranks) >= 2
    process.kill()
    alive = psutil.wait_procs(ranks, timeout=20)[1]
    for left in alive:
        left.kill()
    assert not alive
    assert load_run(run).step() % 50, "they saved where they were"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_an_export_leaves_no_browser(number: int, tmp_path: Path) -> None:
    """Pictures are made by a browser, which a command that is killed cannot close."""
    compile_run("sorter", tmp_path / "run", {"q": 9})
    command = ["inspect", str(tmp_path / "run"), "--only", "entropy", "--n", "16", "--export", "png", "--quiet"]
    end(Typed(command, tmp_path / "said"), number, 8, seconds=20.0)
