from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import workbench
from tests.app.browsing import browsing, chromium, serving
from workbench.app.fields import probe_question
from workbench.app.panels import background, how_it_works
from workbench.runs.compiled import compile_run

APP = Path(__file__).parents[2] / "app" / "main.py"


@pytest.fixture(scope="session")
def run_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each kind on its own task, trained briefly, and compiled models: enough to look at."""
    root = tmp_path_factory.mktemp("explorer")
    for preset, steps, more in [
        ("chain-chacal", 300, {"checkpoint_count": 4}),
        ("chain-standard", 20, {"model": {"n_layers": 2}}),
        ("sort-tempered", 30, {"checkpoint_count": 3}),
        ("multiply-seqvcr", 30, {}),
    ]:
        workbench.train(preset, out=root / preset, progress=False, steps=steps, eval_size=64, **more)
    task = {"name": "boxes", "style": "advanced", "n_boxes": 4, "max_operations": 6}
    workbench.train("chain-chacal", out=root / "items-in-boxes", progress=False, steps=5, eval_size=64, task=task)
    compile_run("sorter", root / "sorter", {"q": 9})
    compile_run("sorter", root / "turned", {"q": 9, "form": "layernorm", "rotate_seed": 1})
    compile_run("chaser", root / "chaser")
    return root


@pytest.fixture(scope="session")
def require_chromium() -> None:
    """Skip where there is no browser, or fail where it was to be there."""
    if chromium() is None:
        message = "no Chromium on this machine; install it with: apt-get install chromium"
        if os.environ.get("WORKBENCH_REQUIRE_BROWSER"):
            pytest.fail(message)
        pytest.skip(message)


@pytest.fixture(scope="module")
def browser(require_chromium: None) -> Iterator[Any]:
    """A headless Chromium."""
    with browsing() as found:
        yield found


@pytest.fixture(scope="session")
def served(run_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of `run_root` for the one server of all browser tests: runs may come and go in it."""
    return Path(shutil.copytree(run_root, tmp_path_factory.mktemp("served") / "runs"))


@pytest.fixture(scope="session")
def address(served: Path) -> Iterator[str]:
    """The address of the explorer over `served`, started by its own command."""
    with serving(served) as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def nothing_kept() -> Iterator[None]:
    """What is found of `run_root` is not kept in it: no test's pages depend on what another had measured."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(how_it_works, "keep", lambda found: None)
        yield


@pytest.fixture(autouse=True)
def fitted_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes are: only a browser looks again at what is fitted beside the page."""
    monkeypatch.setattr(probe_question, "AT_ONCE", np.inf)


@pytest.fixture
def explorer(run_root: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The explorer over `run_root`; `support.page` opens a page of it."""
    monkeypatch.setattr(sys, "argv", ["main.py", "--root", str(run_root)])
    monkeypatch.setattr(background, "_jobs", {})  # what another test had measured
    return AppTest.from_file(str(APP), default_timeout=60)
