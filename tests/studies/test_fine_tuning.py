"""A study that fine-tunes: one model for each seed, every group from it, trained once, asked of the means."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from safetensors.torch import load_file

from tests.training.test_sweep import wait_for
from workbench.cli import main
from workbench.runs import read_log
from workbench.studies import PAPER, SMALL, STUDIES, Study, Verdict, run_study, write_pages
from workbench.studies.fine_tuning import FineTunes, make_fresh, tune_all
from workbench.tasks.text import SHIPPED
from workbench.training import TrainingError
from workbench.training.finetune import finetune
from workbench.training.finetune_config import FinetuneConfig, Finetuned
from workbench.training.finetune_job import FinetuneJob
from workbench.training.finetune_step import FinetuneStep
from workbench.training.sweeps import local
from workbench.training.sweeps.cluster import _attempt_elsewhere, _receive, _to_bytes

SHAPE = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
FEW = {"steps": 3, "batch_size": 4, "eval_size": 8, "eval_every": 2}


def quick(name: str) -> Study:
    """A study of the papers with hardly any training."""
    study = STUDIES[name]
    tunes = study.tunes
    assert isinstance(tunes, FineTunes)
    text = {"length": 16} if "text" in tunes.needs else {}
    shared = {scale: {**FEW, **text} for scale in (SMALL, PAPER)}
    groups = {
        scale: {
            group: {**own, **{name: few for name, few in (("gamma_warmup", 2), ("steps", 3)) if name in own}}
            for group, own in each.items()
        }
        for scale, each in tunes.groups.items()
    }
    begin = {**FEW, "length": 16}
    return replace(study, tunes=replace(tunes, shared=shared, groups=groups, shape=SHAPE, begin=begin))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finetuned-perplexity", "finetuned-multiplication"])
def test_a_study_is_asked_of_its_fine_tunings(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = quick(name)
    count = 3 * len(study.tunes.groups[SMALL])
    result = run_study(study, root=tmp_path, name=name, seeds=3, workers=2)
    said = capsys.readouterr().err
    assert "begin-seed=1 finished: loss " in said and "; 3 of 3 finished" in said
    assert f"; {count} of {count} finished, 0 failed" in said
    assert result is not None and {one.verdict for one in result.outcomes} <= set(Verdict)
    assert "minutes" in result.made
    assert set(result.groups) == set(study.tunes.groups[SMALL])
    runs = tmp_path / name / SMALL / "runs"
    begun = {
        Finetuned.of(path).config.model for path in runs.glob("*-seed=1") if not path.name.startswith(("beg", "fre"))
    }
    assert begun == {str((runs / "begin-seed=1").resolve())}
    again = run_study(study, root=tmp_path, name=name, seeds=3, workers=2)
    assert not capsys.readouterr().err  # nothing is left to train
    assert again is not None and again.to_dict()["groups"] == result.to_dict()["groups"]
    pages = write_pages([result], {name: study}, tmp_path / "pages")
    assert "| published |" in next(page for page in pages if page.name == f"{name}.md").read_text()
    if name == "finetuned-multiplication":
        whole = result.groups["cot"]["whole_answer"]
        assert whole.each.tolist() == [0, 0, 0] and int(whole.n) == 3  # seeds count, not the answers held out
        assert 0.4 < float(whole.high) < 0.6  # three that fail leave room for a seed that does not
        assert "whole_answer before" not in result.groups["cot"]
    else:
        ratio = result.groups["chacal"]["perplexity / standard"]
        assert float(result.groups["standard"]["perplexity / standard"].values) == 1 and ratio.each.shape == (3,)
        over = result.groups["chacal"]["test_loss over fine-tuning"]
        assert list(over.coords["step"]) == [0, 2, 3]


def test_what_the_papers_scale_needs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["study", "run", "finetuned-perplexity", "--scale", "paper", "--root", str(tmp_path), "--quiet"]
    assert main(command) == 2
    assert "it fine-tunes a model of yours, such as GPT-2; give --model" in capsys.readouterr().err
    assert main([*command, "--model", "x"]) == 2
    assert "give --text too" in capsys.readouterr().err
    assert main(["study", "show", "finetuned-multiplication"]) == 0
    assert "small: 5 fine-tunings of one model, 3 seeds of each" in capsys.readouterr().out


@pytest.mark.slow
def test_the_papers_scale_begins_with_the_model_that_is_given(tmp_path: Path) -> None:
    make_fresh(tmp_path / "mine", SHAPE, 0)
    given = {"model": str(tmp_path / "mine"), "text": str(SHIPPED["shakespeare"])}
    how = {"root": tmp_path, "name": "x", "scale": PAPER, "seeds": 1, "workers": 2, "progress": False}
    result = run_study(quick("finetuned-perplexity"), given=given, **how)
    assert result is not None and result.verdict is Verdict.OPEN  # one seed settles nothing
    assert not list((tmp_path / "x" / PAPER / "runs").glob("begin*"))


LONG = """
from dataclasses import replace

from workbench.studies import STUDIES

study = STUDIES["finetuned-multiplication"]
long = {"steps": 100_000, "batch_size": 4, "eval_size": 8, "eval_every": 50_000, "save_every": 50_000}
shape = {"n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 2}
STUDY = replace(study, tunes=replace(study.tunes, shape=shape, begin={**long, "length": 16}))
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["Ctrl-C", "its own process is interrupted", "its own process is killed"])
def test_a_study_that_is_stopped_saves_what_it_is_at_and_begins_nothing_more(how: str, tmp_path: Path) -> None:
    file, runs = tmp_path / "long.py", tmp_path / "long" / SMALL / "runs"
    file.write_text(LONG, encoding="utf-8")
    command = ["study", "run", str(file), "--root", str(tmp_path), "--seeds", "4", "--workers", "2", "--quiet"]
    study = subprocess.Popen(
        [sys.executable, "-m", "workbench", *command], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    logs = [runs / f"begin-seed={seed}" / "metrics.jsonl" for seed in (0, 1)]
    wait_for(lambda: all(log.exists() and '"step": 100,' in log.read_text(encoding="utf-8") for log in logs), 120)
    started = psutil.Process(study.pid).children(recursive=True)
    assert len(started) >= 2
    if how == "Ctrl-C":
        os.killpg(study.pid, signal.SIGINT)
    else:
        study.send_signal(signal.SIGINT if "interrupted" in how else signal.SIGKILL)
    error = study.communicate(timeout=60)[1]
    assert not psutil.wait_procs(started, timeout=60)[1]
    assert "Traceback" not in error
    for log in logs:
        done = Finetuned.of(log.parent)
        assert 100 <= done.step < 100_000 and not done.finished
    assert not (runs / "begin-seed=2").exists()


Settings = dict[Path, dict[str, Any]]
HERE: dict[str, Any] = {"workers": 2, "ray": None, "progress": False}


def seeds_of_one_fine_tuning(name: str, text: str, folder: Path, **more: Any) -> Settings:
    """The settings of two fine-tunings, by their folders."""
    make_fresh(folder / "fresh", SHAPE, 0)
    settings = {**FEW, "length": 16, "model": str(folder / "fresh"), "text": text, "attention": "standard", **more}
    return {folder / f"{name}-seed={seed}": {**settings, "seed": seed} for seed in (0, 1)}


@pytest.mark.slow
def test_a_study_goes_on_from_a_folder_named_from_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fine-tuning keeps the path of its model in full, and the study names it as its user named the root."""
    monkeypatch.chdir(tmp_path)
    root, moved = Path("root"), Path("elsewhere")
    settings = seeds_of_one_fine_tuning("mine", str(SHIPPED["shakespeare"]), root)
    assert [done.finished for done in tune_all(settings, root, **HERE)] == [True, True]
    with monkeypatch.context() as patch:
        patch.delattr(local.subprocess, "Popen")  # nothing is trained again
        assert [done.step for done in tune_all(settings, root, **HERE)] == [3, 3]
    root.rename(moved)
    there = {moved / path.name: {**own, "model": "elsewhere/fresh"} for path, own in settings.items()}
    with monkeypatch.context() as patch:
        patch.delattr(local.subprocess, "Popen")
        assert [done.step for done in tune_all(there, moved, **HERE)] == [3, 3]
    first, second = there
    with pytest.raises(ValueError, match=r"mine-seed=0 holds another fine-tuning, with batch_size 4 and not 2"):
        tune_all({second: there[second], first: {**there[first], "batch_size": 2}}, moved, **HERE)
    with pytest.raises(ValueError, match=r"with clip 1.0 and not 0.5: move it away first"):
        tune_all({first: {**there[first], "clip": 0.5}}, moved, **HERE)  # a setting that was not given before
    shutil.rmtree("elsewhere/fresh")
    make_fresh(Path("elsewhere/fresh"), SHAPE, 7)
    with pytest.raises(ValueError, match=r"with what .*fresh was before it was made anew|the model "):
        tune_all(there, moved, **HERE)


@pytest.mark.slow
def test_a_fine_tuning_that_fails_stops_no_other_and_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("too short")
    settings = seeds_of_one_fine_tuning("mine", str(SHIPPED["shakespeare"]), tmp_path)
    first, second = settings
    settings[first]["text"] = str(tmp_path / "short.txt")
    with pytest.raises(RuntimeError, match=r"^mine-seed=0 failed: [^\n]*short.txt is too short[^\n]+$"):
        tune_all(settings, tmp_path, **HERE | {"workers": 1})
    assert not first.exists() and Finetuned.of(second).finished


@pytest.mark.slow
def test_a_process_that_is_killed_loses_one_attempt_and_its_fine_tuning_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"steps": 400, "save_every": 10}
    settings = seeds_of_one_fine_tuning("mine", str(SHIPPED["shakespeare"]), tmp_path, **more)
    path = next(iter(settings))

    def kill() -> None:
        wait_for(lambda: bool(list(path.glob("resume/step-*.safetensors"))), 120)
        for child in psutil.Process().children(recursive=True):
            child.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    (done,) = tune_all({path: settings[path]}, tmp_path, workers=1, ray=None, progress=True)
    killer.join()
    assert done.finished and "mine-seed=0 lost an attempt: its process was killed by SIGKILL" in capsys.readouterr().err
    resumed = [row["step"] for row in read_log(path / "metrics.jsonl") if row.get("event") == "resumed"]
    assert len(resumed) == 1 and resumed[0] >= 10


def test_another_machine_gets_what_a_fine_tuning_reads_and_sends_back_what_it_made(tmp_path: Path) -> None:
    """Half of it at home and half on a node, whose folders are gone afterwards."""
    settings = seeds_of_one_fine_tuning("mine", str(tmp_path / "text.txt"), tmp_path, steps=4, save_every=2)
    (tmp_path / "text.txt").write_text(SHIPPED["shakespeare"].read_text(encoding="utf-8")[:4000], encoding="utf-8")
    whole, path = settings
    settings[path]["seed"] = settings[whole]["seed"]
    finetune(settings[whole], whole, progress=False)
    usual = FinetuneStep.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FinetuneStep, "__call__", lambda step, *x: None if step.learner.step == 2 else usual(step, *x))
        with pytest.raises(TrainingError):
            finetune(settings[path], path, progress=False)
    job = FinetuneJob(FinetuneConfig(**settings[path]), path)
    config = job.config.model_dump_json()
    read = {
        field: _to_bytes(place) if place.is_dir() else {place.name: place.read_bytes()}
        for field, place in job.inputs().items()
    }
    assert list(read) == ["model", "text"]
    given = (FinetuneJob, config, str(path), _to_bytes(path), {}, [*read])
    other = {**read, "text": {"text.txt": b"another"}}
    assert str(_attempt_elsewhere(*given, *other.values())[1]).startswith(f"{tmp_path}/text.txt is too short: ")
    files, error = _attempt_elsewhere(*given, *read.values())
    assert error is None and "model.safetensors" in files
    _receive(files, job)
    assert job.finished and Finetuned.of(path).config == Finetuned.of(whole).config
    ended, alone = (load_file(folder / "model.safetensors") for folder in (path, whole))
    assert all(torch.equal(ended[name], alone[name]) for name in alone)
    assert "resumed" in (path / "metrics.jsonl").read_text(encoding="utf-8")


def test_a_model_of_another_name_on_the_hub_is_another_model(tmp_path: Path) -> None:
    """Neither has weights in a folder to be known by."""
    begun = FinetuneConfig(model="nowhere/small", text=str(SHIPPED["shakespeare"]), attention="standard")
    (tmp_path / "finetune.json").write_text(begun.model_dump_json(), encoding="utf-8")
    FinetuneJob(begun, tmp_path).check()
    with pytest.raises(ValueError, match="with the model nowhere/small and not nowhere/large: move it away"):
        FinetuneJob(begun.model_copy(update={"model": "nowhere/large"}), tmp_path).check()
