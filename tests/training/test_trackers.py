"""Figures go to trackio as to a run's own log: told to a recorder, and to trackio itself where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.cli import main
from workbench.runs import METRICS, Run, load_run
from workbench.runs.log import read_log
from workbench.training import sweeps, train_seeds

ROOT = Path(__file__).parents[2]
TINY: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 4,
    "eval_every": 2,
    "log_every": 2,
}
RECORDER = '''
"""The part of trackio that is used here, with its names and defaults: each call is a line of JSON."""

import json, os
from pathlib import Path

class Run:
    def __init__(self, project, name):
        self.of = [project, name]

    def log(self, metrics, step=None):
        write("log", *self.of, step, metrics)

    def finish(self):
        write("finish", *self.of)

def init(project, name=None, group=None, space_id=None, config=None, resume="never", embed=True):
    print("* Trackio project initialized")
    write("init", project, name, resume, embed, config)
    return Run(project, name)

def write(*line):
    with Path(os.environ["RECORDED"]).open("a") as file:
        file.write(json.dumps(line) + "\\n")
'''


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a recorder in the place of trackio was told, here and in child processes."""
    place, told = tmp_path / "modules", tmp_path / "told.jsonl"
    place.mkdir()
    (place / "trackio.py").write_text(RECORDER)
    monkeypatch.setenv("RECORDED", str(told))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(place), str(ROOT)]))
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delitem(sys.modules, "trackio", raising=False)
    yield lambda: [json.loads(line) for line in told.read_text().splitlines()]
    sys.modules.pop("trackio", None)


def figures(run: Run) -> list[tuple[int, dict[str, float]]]:
    """The rows of a run's own log that hold figures, without the time that they took."""
    rows = [row for row in read_log(run.path / METRICS) if "event" not in row]
    return [(row.pop("step"), {name: value for name, value in row.items() if name != "seconds"}) for row in rows]


def test_trackio_is_told_what_is_logged(recorded: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = workbench.train("chain-chacal", out=tmp_path / "mine" / "one", progress=False, track="trackio", **TINY)
    assert capsys.readouterr().out == ""
    first, *logged, last = recorded()
    assert first == ["init", "mine", "one", "never", False, run.config.model_dump(mode="json")]
    assert [(step, row) for *_, step, row in logged] == figures(run) and len(logged) == 3
    assert last == ["finish", "mine", "one"]


def test_a_run_that_goes_on_is_the_same_run_there(recorded: Any, tmp_path: Path) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "mine" / "one"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.training.training_run.TrainingRun.evaluate", stop)
        with pytest.raises(KeyboardInterrupt):
            workbench.train("chain-chacal", out=path, progress=False, track="trackio", save_every=1, **TINY)
    assert recorded()[-1] == ["finish", "mine", "one"]
    assert main(["resume", str(path), "--track", "trackio", "--quiet"]) == 0
    assert [line[3] for line in recorded() if line[0] == "init"] == ["never", "allow"]


def test_seeds_of_a_stack_are_runs_of_one_project(recorded: Any, tmp_path: Path) -> None:
    train_seeds("chain-chacal", tmp_path / "seeds", 2, progress=False, track="trackio", **TINY)
    told = recorded()
    assert {tuple(line[1:3]) for line in told} == {("seeds", "seed-0"), ("seeds", "seed-1")}
    assert [line[0] for line in told].count("log") == 6 and [line[0] for line in told[-2:]] == ["finish", "finish"]


def test_so_are_the_runs_of_a_sweep(recorded: Any, tmp_path: Path) -> None:
    wanted = {"preset": "chain-chacal", "settings": TINY, "grid": {"seed": [0, 1]}}
    frame = sweeps.sweep(wanted, tmp_path / "grid", workers=2, track="trackio", progress=False)
    assert list(frame["status"]) == ["finished", "finished"], list(frame["error"])
    for name in frame["run"]:
        logged = [
            (step, row) for kind, _, run, *rest in recorded() if (kind, run) == ("log", name) for step, row in [rest]
        ]
        assert logged == figures(load_run(tmp_path / "grid" / name))
    with pytest.raises(ValueError, match="give track, or the address of a Ray cluster"):
        sweeps.sweep(wanted, tmp_path / "grid", ray="local", track="trackio", progress=False)


def test_a_sweep_without_a_tracker_has_none_whatever_the_shell_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORKBENCH_TRACK", "tensorboard")
    wanted = {"preset": "chain-chacal", "settings": TINY, "grid": {"seed": [0]}}
    assert list(sweeps.sweep(wanted, tmp_path / "grid", workers=1, progress=False)["status"]) == ["finished"]
    assert not list((tmp_path / "grid").glob("*/tensorboard"))


def test_what_is_missing_or_unknown_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workbench.util.distribution.find_spec", lambda name: None)
    for name, said in (("trackio", "pip install 'interp-workbench[tracking]'"), ("wandb", "unknown tracker 'wandb'")):
        assert main(["train", "chain-chacal", "--out", str(tmp_path / "run"), "--track", name, "--steps", "2"]) == 2
        assert said in capsys.readouterr().err and not (tmp_path / "run").exists()


READ = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
names = [run.name for run in trackio.Api().runs("mine")]
print(json.dumps({name: [row["step"] for row in SQLiteStorage.get_logs("mine", name)] for name in names}))
"""


@pytest.mark.skipif(find_spec("trackio") is None, reason="trackio is not installed")
def test_trackio_itself_shows_the_runs(tmp_path: Path) -> None:
    kept = {**os.environ, "TRACKIO_DIR": str(tmp_path / "kept"), "PYTHONPATH": str(ROOT)}
    fields = [f"--{name}={json.dumps(value)}" for name, value in TINY.items() if not isinstance(value, dict)]
    command = [
        sys.executable,
        "-m",
        "workbench",
        "train",
        "chain-chacal",
        "--out",
        str(tmp_path / "mine"),
        "--seeds",
        "2",
    ]
    subprocess.run([*command, *fields, "--track", "trackio", "--quiet"], env=kept, check=True)
    read = subprocess.run([sys.executable, "-c", READ], env=kept, check=True, capture_output=True, text=True)
    assert json.loads(read.stdout.splitlines()[-1]) == {"seed-0": [1, 2, 4], "seed-1": [1, 2, 4]}
