"""A sweep trains what its file asks for, once, whatever happens to the processes that train."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import torch

import workbench
from workbench.cli import main
from workbench.runs import load_run, states
from workbench.training import preset_config, sweeps
from workbench.training.sweeps import driver, local
from workbench.training.sweeps.job import Job
from workbench.training.sweeps.jobs import RunJob, results, survey
from workbench.training.sweeps.plan import LONGEST_NAME, read_plan
from workbench.util.files import load_tensors

TINY: dict[str, Any] = {
    "task": {"n": 8, "k": 2},
    "model": {"d_model": 16, "n_heads": 2},
    "batch_size": 4,
    "eval_size": 8,
    "steps": 6,
    "log_every": 2,
}


def fields(settings: dict[str, Any] = TINY, **others: Any) -> dict[str, Any]:
    return {"preset": "chain-chacal", "settings": settings, **others}


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}


def names(**others: Any) -> list[str]:
    return [run.name for run in read_plan(fields(**others)).runs]


def wait_for(condition: Callable[[], Any], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited for {seconds} s"
        time.sleep(0.02)


# What a file asks for


def test_the_documented_file_means_what_it_says() -> None:
    assert sweeps.__doc__ is not None
    example = "\n".join(line for line in sweeps.__doc__.splitlines() if line.startswith("    ") or not line)
    readme = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    assert len(read_plan(tomllib.loads(readme.partition("```toml")[2].partition("```")[0])).runs) == 3 * 2 + 3
    runs = read_plan(tomllib.loads(example)).runs
    assert len(runs) == 3 * 2 + 3 * 2 * 2
    chosen = {run.name: run for run in runs}["tempered-seed=0-n_layers=1-beta=0.5"]
    by_hand = {"steps": 300, "seed": 0, "task": {"max_length": 12}}
    assert chosen.config == preset_config(
        "sort-tempered", {**by_hand, "model": {"n_layers": 1, "attention": {"variant": "tempered", "beta": 0.5}}}
    )


def test_a_variant_without_settings_of_its_own_keeps_those_of_the_file() -> None:
    variants = [{"name": "own", "settings": {"task": {"k": 4}}}, {"name": "none", "settings": {"task": {}}}]
    runs = {run.name.split("-")[0]: run.config.task for run in read_plan(fields(variants=variants)).runs}
    assert (runs["own"]["n"], runs["own"]["k"]) == (8, 4) and (runs["none"]["n"], runs["none"]["k"]) == (8, 2)


def test_names_stay_when_values_and_variants_are_added() -> None:
    few = names(grid={"seed": [0, 1]})
    assert few == ["chain-chacal-seed=0", "chain-chacal-seed=1"]
    more = names(
        grid={"seed": [2, 1, 0]}, variants=[{"name": "chain-chacal"}, {"name": "b", "preset": "chain-standard"}]
    )
    assert set(few) < set(more) and len(more) == 6


def test_names_can_be_read_and_can_be_folders() -> None:
    assert names(grid={"model.attention": [{"variant": "chacal", "gamma": 0.5}, "standard"]}) == [
        "chain-chacal-attention=_variant_chacal_gamma_0.5_-cb7e68ec",
        "chain-chacal-attention=standard",
    ]
    assert names(grid={"task.n": [8], "model.n_layers": [1]}, variants=[{"name": "a"}]) == ["a-n=8-n_layers=1"]
    clash = {"task.name": ["pointer_chain"], "model.attention.gamma": [0.5], "objectives.seq_vcr.gamma": [1.0]}
    with pytest.raises(
        ValueError, match=r"x-name=pointer_chain-model.attention.gamma=0.5-objectives.seq_vcr.gamma=1.0: "
    ):
        names(grid=clash, variants=[{"name": "x"}])
    (long,) = names(variants=[{"name": "x" * 300}])
    assert len(long) == LONGEST_NAME and long.startswith("xxx")


def test_a_sweep_of_a_task_needs_no_preset() -> None:
    data = {"task": "sorting", "settings": {"task": {"q": 9}, "steps": 7}, "grid": {"seed": [0, 1]}}
    runs = read_plan(data).runs
    assert [run.name for run in runs] == ["sorting-seed=0", "sorting-seed=1"]
    assert all(
        (run.config.task["name"], run.config.task["q"], run.config.preset) == ("sorting", 9, None) for run in runs
    )
    both = read_plan(
        {"preset": "chain-chacal", "task": "sorting", "variants": [{"name": "a"}, {"name": "b", "task": "lis"}]}
    )
    assert [run.config.task["name"] for run in both.runs] == ["sorting", "lis"]
    assert all(run.config.model.attention[0]["variant"] == "chacal" for run in both.runs)


def test_a_grid_wins_over_a_variant_and_a_variant_over_the_file() -> None:
    runs = read_plan(
        fields(
            {**TINY, "seed": 5, "batch_size": 7, "warmup": 3},
            grid={"seed": [1]},
            variants=[{"name": "a", "settings": {"seed": 2, "batch_size": 8, "model": {"attention": "standard"}}}],
        )
    ).runs
    config = runs[0].config
    assert (config.seed, config.batch_size, config.warmup) == (1, 8, 3)
    assert config.model.attention == ({"variant": "standard"},)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("preset = ", "is not TOML"),
        ("x = " + "[" * 5000, "is nested too deeply: at most 100 levels are read"),
        ("x = " + "[" * 500 + "]" * 500, "is nested too deeply"),
        (".".join(["a"] * 300_000) + " = 1", "is nested too deeply"),  # which takes hours to parse
        ("[" + ".".join(['"a b"'] * 300) + "]", "is nested too deeply"),
        ("retries = " + "1" * 5000, "is not TOML: Exceeds the limit (4300 digits)"),
        ("steps = 3", "preset, task, settings, grid, variants, retries"),
        ("[settings]\nsteps = 3", "no preset"),
        ('preset = "chain-chakal"', "did you mean 'chain-chacal'?"),
        ('preset = "chain-chacal"\nretries = true', "retries: input should be a number"),
        (
            f'preset = "chain-chacal"\n[grid]\nseed = {[*range(1000)]}\nsteps = {[*range(1000)]}',
            "10,000 runs at most, not 1,000,000",
        ),
        (
            'preset = "chain-chacal"\n[grid]\n' + "\n".join(f"x{i} = [1, 2]" for i in range(5000)),
            "10,000 runs at most, not a number of more than 15 digits",
        ),
        (
            f'preset = "chain-chacal"\n[grid]\nseed = {[*range(6000)]}\n'
            '[[variants]]\nname = "a"\n[[variants]]\nname = "b"',
            "10,000 runs at most, not 12,000",
        ),
        (
            'preset = "chain-chacal"\n[[variants]]\nname = "Results.parquet"',
            "'Results.parquet' cannot be the name of a run: a file or folder beside it has that name already",
        ),
        ('preset = "chain-chacal"\n[[variants]]\nname = "a."', "'a.' cannot be the name of a run"),
        ('preset = "chain-chacal"\nretries = -1', "retries: input should be greater than or equal to 0"),
        (
            'preset = "chain-chacal"\n[settings]\nstepz = 3',
            "chain-chacal: unknown field 'stepz' (did you mean 'steps'?)",
        ),
        ('preset = "chain-chacal"\n[grid]\nseed = 3', "grid.seed is a list of values, such as [0, 1, 2], not 3"),
        ('preset = "chain-chacal"\n[grid]\nseed = []', "grid.seed is a list"),
        ('preset = "chain-chacal"\n[grid]\nmodel.width = [3]', "chain-chacal-width=3: unknown field 'model.width'"),
        ('preset = "chain-chacal"\n[grid]\nseed = [0, -1]', "chain-chacal-seed=-1: seed: input should be greater"),
        ('preset = "chain-chacal"\n[grid]\nseed = [0, 0]', "two runs are named 'chain-chacal-seed=0'"),
        ('preset = "chain-chacal"\n[grid]\nseed = [1]\n"seed.x" = [1]', "seed.x is given, and seed as 1 too"),
        ('preset = "chain-chacal"\n[grid]\nclip = [1, 1.0]', "are the same run"),
        ('preset = "chain-chacal"\n[grid]\ntask.n = [32]\n"task.n" = [64]', "grid.task.n is given twice"),
        ('preset = "chain-chacal"\nvariants = ["a"]', "[[variants]] blocks"),
        ('preset = "chain-chacal"\n[[variants]]\nnam = "a"', "variant 1: name: field required"),
        ('preset = "chain-chacal"\n[[variants]]\nname = "a"\nstep = 1', "variant a: unknown field 'step'"),
        ('preset = "chain-chacal"\n[[variants]]\nname = "../a"', "variant ../a: name: string should match"),
        ('preset = "chain-chacal"\n[[variants]]\nname = "a"\n[[variants]]\nname = "A"', "two runs are named 'A'"),
    ],
)
def test_a_wrong_file_is_one_line_and_nothing_is_written(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    assert main(["sweep", str(file), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert message in error and "wrong.toml" in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "none.toml"}, "there is no sweep file none.toml"),
        ({"source": fields()}, "say where the runs go"),
        ({"source": fields(), "out": "OUT", "workers": 0}, "workers must be at least 1, not 0"),
        ({"source": fields(), "out": "OUT", "workers": 100_000}, "workers=100000 are too many for"),
        ({"source": fields(), "out": "OUT", "workers": 1, "ray": "auto"}, "not both"),
    ],
)
def test_wrong_arguments_are_refused_and_nothing_is_written(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        workbench.sweep(**arguments)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_another_run_is_named_and_left_alone(tmp_path: Path) -> None:
    workbench.train("chain-chacal", tmp_path / "chain-chacal-seed=1", progress=False, seed=1, **TINY)
    before = contents(tmp_path)
    longer = {**TINY, "task": {"n": 16, "k": 2}}
    with pytest.raises(
        ValueError, match=r"seed=1 holds another run: its task.n is 8, and the sweep says 16; move it away"
    ):
        workbench.sweep(fields(longer, grid={"seed": [0, 1]}), tmp_path, progress=False)
    assert contents(tmp_path) == before


def test_columns_of_many_kinds_of_values_are_text(tmp_path: Path) -> None:
    grid = {"model.attention": [{"variant": "chacal", "gamma": 0.5}, "standard"], "learning_rate": [1, 0.5]}
    frame = results(survey(read_plan(fields(grid=grid)), tmp_path))
    frame.to_parquet(tmp_path / "written.parquet")
    assert set(frame["model.attention"]) == {'{"variant": "chacal", "gamma": 0.5}', "standard"}
    assert frame["learning_rate"].tolist() == [1, 0.5, 1, 0.5]


# On this machine


def test_a_sweep_trains_each_run_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "small.toml", tmp_path / "sweeps" / "small"
    file.write_text(
        'preset = "chain-chacal"\n[settings]\nsteps = 6\nbatch_size = 4\neval_size = 8\ntask = {n = 8, k = 2}\n'
        "model = {d_model = 16, n_heads = 2}\n[grid]\nseed = [0, 1]\n[[variants]]\nname = 'chacal'\n"
        "[[variants]]\nname = 'plain'\npreset = 'chain-standard'\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["sweep", "small.toml", "--dry-run"]) == 0
    assert capsys.readouterr().out.count("unfinished  step 0/6") == 4 and not out.exists()
    assert main(["sweep", "small.toml", "--workers", "2"]) == 0
    said = capsys.readouterr()
    assert "4 of 4 runs are finished" in said.out and "plain-seed=1 finished: accuracy" in said.err

    frame = pd.read_parquet(out / "results.parquet")
    assert frame["run"].tolist() == ["chacal-seed=0", "chacal-seed=1", "plain-seed=0", "plain-seed=1"]
    assert frame["attempts"].tolist() == [1] * 4 and frame["error"].isna().all()
    for row in frame.to_dict("records"):
        run = load_run(out / row["run"])
        last = run.metrics().iloc[-1]
        assert run.finished and row["status"] == "finished" and row["seed"] == run.config.seed
        assert [row[name] for name in ("step", "loss", "accuracy", "seconds")] == [
            last[name] for name in ("step", "loss", "accuracy", "seconds")
        ]
    assert main(["runs", "--root", str(out)]) == 0
    assert capsys.readouterr().out.count("finished") == 4

    before = contents(out)
    with monkeypatch.context() as patch:
        patch.delattr(local.subprocess, "Popen")
        assert main(["sweep", "small.toml"]) == 0
        assert contents(out) == before
        (out / "results.parquet").unlink()
        assert main(["sweep", "small.toml"]) == 0
    assert pd.read_parquet(out / "results.parquet")["status"].tolist() == ["finished"] * 4

    file.write_text(file.read_text().replace("[0, 1]", "[0, 1, 2]"))
    frame = workbench.sweep("small.toml", progress=False)
    assert frame["attempts"].tolist() == [0, 0, 1, 0, 0, 1]  # the results that knew of the others' attempts were lost
    after = contents(out)
    assert all(after[path] == was for path, was in before.items() if "seed" in path)


def kill_once_saved(job: Job, process: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: states(job.folder))
    process.kill()


def test_a_worker_that_is_killed_loses_one_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deadly(local.Workers):
        def start(self, job: Job) -> None:
            super().start(job)
            if job.attempts == 0 or job.name.endswith("seed=1"):
                threading.Thread(target=kill_once_saved, args=(job, self.running[-1][1])).start()

    settings = {**TINY, "steps": 400, "log_every": 100, "save_every": 20}
    monkeypatch.setattr(driver, "Workers", Deadly)
    out = tmp_path / "out"
    frame = workbench.sweep(fields(settings, grid={"seed": [0, 1]}, retries=1), out, workers=2, progress=False)
    assert frame["status"].tolist() == ["finished", "failed"] and frame["attempts"].tolist() == [2, 2]
    assert frame["error"][1] == "its process was killed by SIGKILL; 2 attempts were lost"
    (event,) = [row for row in load_run(out / "chain-chacal-seed=0").log() if row.get("event") == "resumed"]
    assert event["step"] > 0, "the second attempt went on from where the first had saved"
    config = read_plan(fields(settings)).runs[0].config
    RunJob.work(config.model_dump(mode="json"), tmp_path / "undisturbed")
    swept, alone = (
        load_tensors(tmp_path / p / "weights.safetensors")[0] for p in ("out/chain-chacal-seed=0", "undisturbed")
    )
    assert all(torch.equal(swept[name], alone[name]) for name in alone)


def test_a_run_that_fails_is_recorded_and_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "some.toml"
    file.write_text(
        'preset = "chain-chacal"\n[settings]\nsteps = 4\nwarmup = 0\nbatch_size = 4\neval_size = 8\n'
        "task = {n = 8, k = 2}\nmodel = {d_model = 16, n_heads = 2}\n[grid]\nlearning_rate = [1e30, 1e-3]"
    )
    assert main(["sweep", str(file), "--out", str(tmp_path / "out"), "--workers", "2", "--quiet"]) == 1
    said = capsys.readouterr()
    assert "1 of 2 runs are finished" in said.out
    assert "failed: chain-chacal-learning_rate=1e+30" in said.err and said.err.count("\n") == 1
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert frame["status"].tolist() == ["failed", "finished"] and frame["attempts"].tolist() == [1, 1]
    assert "not finite at step" in frame["error"][0] and "Traceback" not in frame["error"][0]


def start_sweep(tmp_path: Path) -> subprocess.Popen[str]:
    """`workbench sweep` in a process of its own, once its two runs have saved."""
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(
        'preset = "chain-chacal"\n[settings]\nsteps = 4000\nsave_every = 50\nbatch_size = 4\neval_size = 8\n'
        "task = {n = 8, k = 2}\nmodel = {d_model = 16, n_heads = 2}\n[grid]\nseed = [0, 1, 2]"
    )
    command = [sys.executable, "-m", "workbench", "sweep", str(file), "--out", str(out), "--workers", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for(lambda: all(states(out / f"chain-chacal-seed={seed}") for seed in (0, 1)))
    return process


def test_ctrl_c_stops_the_workers_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start_sweep(tmp_path)
    with pytest.raises(ValueError, match=r"out is being swept by another process; wait for it"):
        workbench.sweep(tmp_path / "long.toml", tmp_path / "out", progress=False)
    workers = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[0]
    assert process.returncode == 130 and "stopped; `workbench sweep" in said and "Traceback" not in said
    assert len(workers) == 2 and not any(worker.is_running() for worker in workers)
    frame = pd.read_parquet(tmp_path / "out" / "results.parquet")
    assert frame["status"].tolist() == ["unfinished"] * 3 and frame["attempts"].tolist() == [1, 1, 0]
    for seed in (0, 1):
        assert load_run(tmp_path / "out" / f"chain-chacal-seed={seed}").step() % 50, "it saved where it was"


def test_workers_stop_and_save_when_the_sweep_is_killed(tmp_path: Path) -> None:
    process = start_sweep(tmp_path)
    workers = psutil.Process(process.pid).children()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert not psutil.wait_procs(workers, timeout=60)[1]
    run = load_run(tmp_path / "out" / "chain-chacal-seed=0")
    assert not run.finished and run.step() % 50
