"""No command imports from the folder it is typed in, whatever a stranger has put there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.app.browsing import browsing, chromium, settle

# What Python has imported before it looks into any folder; it would not start if these were replaced.
SMALL = {"steps": 4, "eval_size": 8, "batch_size": 4, "task.n": 8, "task.k": 2, "model.d_model": 16}
TINY = ["--quiet", *(part for name, value in SMALL.items() for part in (f"--{name}", str(value)))]
SWEEP = """
preset = "chain-chacal"
settings = {steps = 4, eval_size = 8, batch_size = 4, task = {n = 8, k = 2}, model = {d_model = 16}}
grid = {seed = [0, 1]}
"""
PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
SCRIPT = Path(sys.executable).with_name("workbench")


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A folder with a file for every library and every module of Python, each of which leaves a mark if it is run."""
    folder = tmp_path / "strangers"
    folder.mkdir()
    trap = f"with open({str(tmp_path / 'mark')!r}, 'a') as mark: mark.write(__name__ + chr(10))\nraise SystemExit(99)\n"
    names = {*packages_distributions(), *sys.stdlib_module_names, "app", "probes", "sitecustomize", "usercustomize"}
    for name in filter(str.isidentifier, names - {"workbench"}):
        (folder / f"{name}.py").write_text(trap, encoding="utf-8")
    for name in ("safetensors", "app", "probes", "numpy"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(trap, encoding="utf-8")
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "config.toml").write_text("[server]\nport = 1\nbaseUrlPath = 'theirs'\n", encoding="utf-8")
    (folder / "sweep.toml").write_text(SWEEP, encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str, first: list[str] | None = None) -> str:
    """What a command says that is typed there; it must go well, and nothing there may have been run."""
    command = [*(first or [str(SCRIPT)]), *arguments]
    done = subprocess.run(command, cwd=folder, env=PLAIN, capture_output=True, text=True, timeout=300)
    mark = folder.parent / "mark"
    assert not mark.exists(), f"{' '.join(command)} ran {mark.read_text()}"
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_the_traps_work(trapped: Path) -> None:
    with pytest.raises(AssertionError, match="ran safetensors"):
        run(trapped, "-c", "import safetensors", first=[sys.executable])


def test_a_sweep_and_its_workers_import_nothing_from_the_current_folder(trapped: Path) -> None:
    assert "2 of 2 runs are finished" in run(trapped, "sweep", "sweep.toml", "--out", "out", "--quiet")


def test_python_m_workbench_imports_nothing_from_the_current_folder(trapped: Path) -> None:
    run(trapped, "list", "instruments", first=[sys.executable, "-m", "workbench"])


@pytest.mark.slow
def test_no_command_imports_from_the_current_folder(trapped: Path) -> None:
    """Every command of the parser, by its script and by `python -m`."""
    module = [sys.executable, "-m", "workbench"]
    torchrun = [str(Path(sysconfig.get_path("scripts")) / "torchrun"), "--nproc-per-node", "2", "-m", "workbench"]
    quick = TINY
    preset = "chain-chacal"
    run(trapped, "train", preset, "--out", "one", "--workers", "2", *quick)
    run(trapped, "train", preset, "--out", "two", *quick, first=module)
    run(trapped, "train", preset, "--out", "three", *quick, first=torchrun)
    run(trapped, "train", preset, "--out", "four", "--seeds", "2", "--track", "tensorboard", *quick)
    run(trapped, "resume", "one", "--quiet")
    run(trapped, "sweep", "sweep.toml", "--out", "swept", "--quiet", first=module)
    run(trapped, "sweep", "sweep.toml", "--out", "elsewhere", "--ray", "local", "--quiet")
    run(trapped, "compile", "chaser", "--out", "five")
    run(trapped, "inspect", "one", "two", "--n", "16", "--export", "svg", "--quiet")
    run(trapped, "probe", "one", "hops", "--n", "60", "--no-causal", "--quiet")
    run(trapped, "data", "sorting", "--count", "40", "--out", "data.parquet", "--workers", "2", "--quiet")
    run(trapped, "data", "data.parquet", "--count", "1")
    run(trapped, "export", "one", "one.zip")
    run(trapped, "import", "one.zip", "--out", "six")
    run(trapped, "runs", "--root", ".", "--sort", "accuracy")
    for what in ("presets", "fields", "tasks", "variants", "objectives", "compiled", "mechanisms", "probes"):
        run(trapped, "list", what)
    for command in (["push", "one", "nobody/nothing"], ["pull", "nobody/nothing", "--out", "seven"]):
        # A hub that nobody can reach; what is asked of them here is only what they import.
        done = subprocess.run(
            [str(SCRIPT), *command],
            cwd=trapped,
            capture_output=True,
            timeout=300,
            env={**PLAIN, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_TOKEN": "x"},
        )
        assert done.returncode in (1, 2) and not (trapped.parent / "mark").exists()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("first", [[str(SCRIPT)], [sys.executable, "-m", "workbench"]], ids=["script", "module"])
def test_the_explorer_and_what_it_trains_import_nothing_from_the_current_folder(
    trapped: Path, first: list[str]
) -> None:
    assert chromium()
    run(trapped, "train", "chain-chacal", "--out", "runs/one", *TINY)
    command = [*first, "explore", "--root", "runs", "--port", "8655", "--headless"]
    with subprocess.Popen(command, cwd=trapped, env=PLAIN, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = next((part for part in server.stdout.readline().split() if part.startswith("http")), "")
        assert address, (trapped.parent / "mark").read_text()
        with browsing() as browser:
            page = browser.new_page()
            for name in ("overview", "canvas", "mechanisms", "probes", ""):
                page.goto(address.replace("/?", f"/{name}?"))
                settle(page)
            page.get_by_label("Name of the run").fill("begun")
            page.get_by_label("Name of the run").press("Tab")
            settle(page)
            page.get_by_label("Steps").fill("4")
            page.get_by_label("Steps").press("Tab")
            settle(page)
            page.get_by_role("button", name="Train it").click()
            page.get_by_text("begun is trained").wait_for(timeout=120_000)
        server.send_signal(signal.SIGTERM)
    mark = trapped.parent / "mark"
    assert not mark.exists(), mark.read_text()


def test_an_own_app_and_own_probes_beside_a_script_are_no_matter(tmp_path: Path) -> None:
    """As beside a notebook, whose folder comes first."""
    (tmp_path / "app.py").write_text("mine = 1\n", encoding="utf-8")
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "__init__.py").write_text("mine = 2\n", encoding="utf-8")
    script = tmp_path / "script.py"
    script.write_text(
        "import app, probes, workbench\nfrom workbench.app.server import serve\n"
        "from workbench.probes import PRESETS, probe\n"
        "assert app.mine + probes.mine == 3 and workbench.probes.probe is probe and serve.listen and PRESETS\n",
        encoding="utf-8",
    )
    subprocess.run([sys.executable, str(script)], check=True, cwd=tmp_path, env=PLAIN, timeout=120)
