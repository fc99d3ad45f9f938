"""Ctrl-C of `patch` and `circuit` keeps what is done, says what that is, and how to have the rest."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench.circuits import patch_grid, summary
from workbench.cli import main
from workbench.runs import Run
from workbench.runs.compiled import compile_run

INTERRUPTED = 130


@pytest.fixture(scope="module")
def sorter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return compile_run("sorter", tmp_path_factory.mktemp("run") / "sorter", {"q": 6, "max_length": 6})


def interrupting(function: Callable[..., Any], call: int) -> Callable[..., Any]:
    """A function in whose so-maniest call Ctrl-C is pressed."""
    calls: list[int] = []

    def pressed(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return function(*given, **named)

    return pressed


@pytest.mark.parametrize(
    ("function", "call", "maps", "control", "places"),
    [
        ("_by_role", 2, ["residual", "attention"], False, 0),
        ("_by_role", 5, ["residual", "attention", "MLPs", "heads"], False, 0),
        ("_effect", 3, ["residual", "attention", "MLPs", "heads"], True, 2),
    ],
    ids=["while sites are patched", "while control pairs are", "while the strongest places are"],
)
def test_patching_keeps_the_maps_that_are_done(
    function: str,
    call: int,
    maps: list[str],
    control: bool,
    places: int,
    sorter: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(patch_grid, function, interrupting(getattr(patch_grid, function), call))
    out = tmp_path / "out"
    assert main(["patch", str(sorter.path), "--n", "8", "--method", "exact", "--out", str(out)]) == INTERRUPTED
    printed = capsys.readouterr()
    assert f"Interrupted: the maps of {', '.join(maps)} are whole" in printed.out
    assert ("without control pairs" not in printed.out) == control
    assert "what is done is kept" in printed.err and "The same command, not interrupted" in printed.out
    assert "none with 1% or more" not in printed.out, "what was not patched is not told of"
    assert len(json.loads((out / "patching.json").read_text(encoding="utf-8"))["strongest"]) == places
    assert len(pd.read_csv(out / "attn_out.csv")) and (out / "head_control.csv").is_file() == control
    assert (out / "patched.html").is_file()


def test_a_circuit_that_is_found_and_tested_is_kept_without_what_comes_after(
    sorter: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = ["circuit", str(sorter.path), "--n", "8", "--method", "eap"]
    assert main(whole) == 0
    said = capsys.readouterr().out
    monkeypatch.setattr(summary, "score_edges", interrupting(summary.score_edges, 1))
    out = tmp_path / "out"
    assert main([*whole, "--out", str(out)]) == INTERRUPTED
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == said.splitlines()[0], "the circuit is the same"
    assert "Interrupted: the circuit was found and tested, but not held against control pairs" in printed.out
    assert (out / "circuit.json").is_file() and (out / "scores.csv").is_file()
    assert not (out / "nodes.csv").exists() and not (out / "control.csv").exists()
    monkeypatch.undo()
    assert main(whole) == 0 and capsys.readouterr().out == said, "nothing is left of the interruption"
