"""Small runs under the names that the documentation's examples use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import workbench
from workbench.runs.compiled import compile_run
from workbench.training import PRESETS
from workbench.util.settings import merge

SHORT = {"steps": 12, "batch_size": 16, "eval_size": 32, "warmup": 2}
SMALL = {"task": {"n": 16, "k": 4}, "model": {"d_model": 16, "n_heads": 2}}


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs, trained for a few steps or compiled, once for all pages."""
    root = tmp_path_factory.mktemp("docs")
    chain = workbench.train("chain-chacal", out=root / "runs/chain", **SHORT, **SMALL, checkpoint_count=2)
    workbench.train("chain-standard", out=root / "runs/standard", **SHORT, **SMALL)
    compile_run("sorter", root / "runs/sorter", {"q": 6, "max_length": 6})
    for copy in ("runs/a", "runs/b", "runs/chacal"):
        shutil.copytree(chain.path, root / copy)
    shutil.copytree(root / "runs/sorter", root / "runs/sort")
    return root


@pytest.fixture
def folder(made_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a copy of the runs; presets take a few steps in it."""
    shutil.copytree(made_runs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, preset in list(PRESETS.items()):
        monkeypatch.setitem(PRESETS, name, merge(preset, SHORT))
    return tmp_path
