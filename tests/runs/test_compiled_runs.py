"""Compiled models as run folders: opened, hooked and inspected like any other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from workbench import runs
from workbench.cli import main
from workbench.models import Decoder, DecoderConfig
from workbench.report import inspect
from workbench.runs.compiled import COMPILED, compile_run
from workbench.tasks import make

CASES: list[tuple[str, dict[str, Any]]] = [
    ("sorter", {"q": 6, "max_length": 6}),
    ("sorter", {"q": 6, "max_length": 6, "form": "layernorm", "rotate_seed": 1}),
    ("chaser", {"n": 16, "k": 4}),
    ("chaser", {"n": 16, "k": 4, "reading": "chain", "rotate_seed": 1}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_a_compiled_run_is_right_on_every_sequence(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    run = compile_run(name, tmp_path / "run", settings)
    assert run.finished and run.step() == 0
    report = inspect([run.path], n=32)
    (one,) = report.inspected
    assert one["overall"].mean.values.tolist() == [1.0, 1.0]
    assert report.html.is_file()


def test_the_command_line_writes_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "sorter", "--out", str(tmp_path / "s"), "--q", "5", "--form", "layernorm"]) == 0
    assert "compiled sorter" in capsys.readouterr().out
    assert runs.load_run(tmp_path / "s").config.model.norm == "layernorm"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compile", "sorta"], "sorter"),
        (["compile", "sorter", "--qq", "5"], "q"),
        (["compile", "sorter", "--max_length", "300"], "255"),
        (["compile", "chaser", "--n", "10", "--k", "4"], "k"),
    ],
)
def test_what_cannot_be_compiled_is_said(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "x")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_list_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "compiled"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMPILED)


def test_save_run_writes_any_decoder(tmp_path: Path) -> None:
    task = make("sorting", q=4, max_length=4)
    model = Decoder(DecoderConfig(n_layers=1, d_model=8, n_heads=2, d_vocab=6, n_ctx=9)).double()
    run = runs.save_run(tmp_path / "mine", model, task)
    tokens = torch.tensor([[0, 1, 4, 0]])
    with torch.no_grad():
        assert torch.equal(run.model()(tokens), model.eval()(tokens))
    with pytest.raises(ValueError, match="already"):
        runs.save_run(tmp_path / "mine", model, task)


def test_save_run_refuses_what_does_not_fit(tmp_path: Path) -> None:
    model = Decoder(DecoderConfig(n_layers=1, d_model=8, n_heads=2, d_vocab=6, n_ctx=9))
    with pytest.raises(ValueError, match="6"):
        runs.save_run(tmp_path / "a", model, make("sorting", q=5, max_length=4))
    with pytest.raises(ValueError, match="float"):
        runs.save_run(tmp_path / "a", model.half(), make("sorting", q=4, max_length=4))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("step", [-1, 7])
def test_a_checkpoint_that_is_not_there_is_named_by_its_step(
    step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compile_run("chaser", tmp_path / "run")
    assert main(["probe", str(tmp_path / "run"), "parent", "--n", "16", "--step", str(step), "--quiet"]) == 2
    assert f"run has no checkpoint of step {step}; there is: none" in capsys.readouterr().err
