"""A stranger's day: a new folder, a fresh environment with the wheel alone, and five parts of one's own."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import site
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tests.app.browsing import browsing, chromium, settle, started
from workbench.runs import STATES, load_run

pytestmark = [pytest.mark.slow, pytest.mark.alone, pytest.mark.usefixtures("no_plugins")]

ROOT = Path(__file__).parents[1]
NAMES = {"task": "backwards", "variant": "soft_sigmoid", "instrument": "looks_back", "mechanism": "reads_gold"}
NAMES["study"] = "short_chains"
FILES = [f"{name}.py" for name in NAMES.values()]
SMALL = {"task.length": 3, "model.n_layers": 1, "model.d_model": 32, "eval_size": 16, "batch_size": 8}
SWEEP = """
task = "backwards"

[settings]
steps = 20
task.length = 3
model = { attention = "soft_sigmoid", n_layers = 1, d_model = 32 }
eval_size = 16
batch_size = 8

[grid]
seed = [0, 1, 2, 3]
"""

Run = Callable[..., str]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment in which the wheel is installed; what it depends on is lent, the repository is not there."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.rstrip("\0").split("\0"):
        if not name.startswith(("docs/", "tests/", "app/zoo/")) and (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name, follow_symlinks=False)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)], check=True
    )
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    subprocess.run([*pip, "--python", str(python), "install", "--no-deps", *map(str, folder.glob("*.whl"))], check=True)
    own = next((folder / "env").glob("lib/python*/site-packages"))
    (own / "lent.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    where = subprocess.run([python, "-P", "-c", "import workbench; print(workbench.__file__)"], capture_output=True)
    assert str(own) in where.stdout.decode(), "the installed package is tried, not the repository"
    return python


@pytest.fixture(scope="module")
def folder(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder with a part of each kind, as `new` writes it."""
    made = tmp_path_factory.mktemp("mine")
    for kind, name in NAMES.items():
        subprocess.run([python, "-m", "workbench", "new", kind, name], cwd=made, check=True, capture_output=True)
    assert sum(len((made / file).read_text(encoding="utf-8").splitlines()) for file in FILES) < 150
    return made


@pytest.fixture
def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "OMP_NUM_THREADS": "1", "WORKBENCH_PLUGINS": os.pathsep.join(FILES)}


@pytest.fixture
def run(python: Path, folder: Path, environment: dict[str, str]) -> Run:
    """A command as it is typed there: what it says."""

    def typed(*words: str) -> str:
        command = [python, "-m", "workbench", *words]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return typed


def test_own_parts_train_and_go_on_after_a_kill(
    run: Run, python: Path, folder: Path, environment: dict[str, str]
) -> None:
    fields = [part for name, value in SMALL.items() for part in (f"--{name}", str(value))]
    words = ["train", "--task", "backwards", "--model.attention", "soft_sigmoid", "--steps", "2000", "--quiet"]
    command = [python, "-m", "workbench", *words, "--save-every", "20", "--out", "runs/mine", *fields]
    with subprocess.Popen(command, cwd=folder, env=environment) as training:
        until = time.monotonic() + 120
        while not list((folder / "runs" / "mine" / STATES).glob("*.safetensors")):
            assert time.monotonic() < until and training.poll() is None
            time.sleep(0.02)
        training.send_signal(signal.SIGKILL)
    assert not (folder / "runs" / "mine" / "summary.json").exists()
    run("resume", "runs/mine", "--quiet")
    config = json.loads((folder / "runs" / "mine" / "config.json").read_text(encoding="utf-8"))
    assert {plugin["name"] for plugin in config["plugins"]} == {"backwards.py", "soft_sigmoid.py"}
    assert "backwards" in run("runs", "--root", "runs")
    with pytest.raises(ValueError, match=r"it needs the plugin backwards\.py"):
        load_run(folder / "runs" / "mine")


def test_they_are_measured_tested_and_probed(run: Run, folder: Path) -> None:
    said = run("inspect", "runs/mine", "--n", "16", "--only", "accuracy", "looks_back", "reads_gold", "--quiet")
    assert "Parent read" in said
    report = next((folder / "runs" / "mine" / "inspection").glob("*.html")).read_text(encoding="utf-8")
    assert "Attention distance" in report and "Parent read" in report
    assert "place" in run("probe", "runs/mine", "place", "--n", "64", "--no-causal", "--quiet")


@pytest.mark.parametrize("how", [["--workers", "2"], ["--ray", "local"]], ids=["two workers", "ray"])
def test_a_sweep_trains_them(run: Run, folder: Path, how: list[str]) -> None:
    name = how[0].strip("-")
    (folder / f"{name}.toml").write_text(SWEEP, encoding="utf-8")
    run("sweep", f"{name}.toml", "--quiet", *how)
    table = pd.read_csv(io.StringIO(run("runs", "--root", f"sweeps/{name}", "--csv")))
    assert list(table["status"]) == 4 * ["finished"] and set(table["variants"]) == {"soft_sigmoid"}


def test_the_study_is_run(run: Run, folder: Path) -> None:
    said = run("study", "run", "short_chains", "--seeds", "3", "--quiet")
    assert "short_chains, small:" in said and "accuracy: chacal" in said


@pytest.mark.browser
def test_the_explorer_shows_them(python: Path, folder: Path, environment: dict[str, str]) -> None:
    if chromium() is None:
        pytest.skip("no Chromium on this machine; install it with: apt-get install chromium")
    with started(folder / "runs", python=python, cwd=folder, env=environment) as (_, address), browsing() as browser:
        page = browser.new_page(viewport={"width": 1600, "height": 1200})
        page.goto(address)
        settle(page)
        page.goto(f"{address.split('/?')[0]}/mechanisms?run=mine&claim=reads_gold")
        settle(page)
        page.get_by_text("Parent read").first.wait_for(timeout=120_000)
        assert page.locator('[data-testid="stException"]').count() == 0
        page.goto(f"{address.split('/?')[0]}/canvas?run=mine")
        settle(page)
        assert page.get_by_text("|").count() and page.locator('[data-testid="stException"]').count() == 0
