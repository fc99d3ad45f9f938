"""Disks that are really full, wherever in a run it happens: one line that says so, and nothing is lost."""

from __future__ import annotations

import multiprocessing
import re
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import workbench
from workbench.cli import main
from workbench.runs import load_run, states
from workbench.training import TrainingError
from workbench.util.files import load_tensors

SMALL: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2, "dropout": 0.1},
    "objectives": {"seq_vcr": {"layer": -1, "projection": 12}},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 20,
    "log_every": 1,
}
OFTEN = {"save_every": 3, "checkpoint_every": 5}  # the states are what fills the disk
SELDOM = {"save_every": 15}  # the last thing that is written is: the weights


def train(folder: Path, **changes: Any) -> str:
    """What went wrong, or nothing."""
    try:
        workbench.train("chain-chacal", out=folder, progress=False, **SMALL, **changes)
    except TrainingError as error:
        return str(error)
    return ""


def same(first: Path, second: Path) -> bool:
    a, b = (load_tensors(folder / "weights.safetensors")[0] for folder in (first, second))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    assert not train(folder)
    return folder


def check(said: str, folder: Path, undisturbed: Path, reason: str) -> str:
    """It is one line and true; once there is space again the run ends as if nothing had happened. What did not fit."""
    found = re.fullmatch(rf"cannot write (\S+): {reason}; (?:step (\d+) is|no state was) kept.*, and (.*)", said)
    assert found, said
    name, step, then = found.groups()
    assert [int(step)] == [load_run(folder).step()] if step else not folder.exists() or not states(folder)
    if (folder / "config.json").exists():
        assert then == f"`workbench resume {folder}` goes on from there"
        assert main(["resume", str(folder), "--quiet"]) == 0
    else:
        assert then == "nothing was written" and not list(folder.parent.glob("**/*.json"))
        assert not train(folder)
    assert same(folder, undisturbed) and not list(folder.glob("**/.*"))
    assert load_run(folder).metrics()["step"].tolist() == list(range(1, 21))
    return Path(name).name


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of one page."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", place], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"only root mounts file systems: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def resize(disk: Path, kilobytes: int) -> None:
    subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", disk], check=True)


def kind(name: str) -> str:
    """Which file it was, whatever its step."""
    return re.sub(r"^\.|\.partial$|\d+", "", name)


@pytest.mark.parametrize("saved", [OFTEN, SELDOM], ids=["often", "seldom"])
def test_a_disk_of_any_size_is_one_clear_line_and_nothing_is_lost(
    saved: dict[str, int], disk: Path, undisturbed: Path
) -> None:
    failed = set()
    for kilobytes in [4, 8, 12, *range(20, 400, 20)]:
        resize(disk, kilobytes)
        folder = disk / f"run-{kilobytes}"
        said = train(folder, **saved)
        resize(disk, 1000)
        if not said:
            break
        failed.add(kind(check(said, folder, undisturbed, "No space left on device")))
        subprocess.run(["rm", "-r", folder], check=True)
    else:
        pytest.fail("even the largest disk was full")
    assert failed >= {"metrics.jsonl", "step-.safetensors"}
    assert saved is OFTEN or "weights.safetensors" in failed


def test_a_full_disk_lets_no_run_begin(disk: Path, undisturbed: Path) -> None:
    (disk / "full").write_bytes(bytes(4096))
    said = train(disk / "run")
    (disk / "full").unlink()
    resize(disk, 1000)
    assert kind(check(said, disk / "run", undisturbed, "No space left on device")) == "config.json"


def _train_with_quota(folder: Path, size: int, saved: dict[str, int], said: Any) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    said.send(train(folder, **saved))


@pytest.mark.parametrize(
    ("size", "saved", "file"),
    [(100, OFTEN, "config.json"), (1900, SELDOM, "metrics.jsonl"), (8000, OFTEN, "step-.safetensors")],
)
def test_a_quota_is_one_clear_line_and_nothing_is_lost(
    size: int, saved: dict[str, int], file: str, tmp_path: Path, undisturbed: Path
) -> None:
    said, end = multiprocessing.Pipe(duplex=False)
    arguments = (tmp_path / "run", size, saved, end)
    process = multiprocessing.get_context("fork").Process(target=_train_with_quota, args=arguments)
    process.start()
    process.join()
    assert kind(check(said.recv(), tmp_path / "run", undisturbed, "File too large")) == file
