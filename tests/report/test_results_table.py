"""A table of results: a row for each group, means and intervals over seeds, differences after Holm; in three forms."""

from __future__ import annotations

import json
import shutil
import subprocess
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import workbench
from workbench.cli import main
from workbench.measurement import intervals, p_values
from workbench.report.results_table import as_latex, as_markdown, results_table
from workbench.runs import Run, load_run

SMALL: dict[str, Any] = {"steps": 0, "eval_size": 32, "task": {"n": 8, "k": 2}, "model": {"d_model": 16, "n_heads": 2}}
ACCURACY = {("standard", 1): (0.5, 0.6, 0.55), ("standard", 2): (0.7, 0.75, 0.8), ("chacal", 1): (1.0, 1.0, 0.97)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of three groups of three seeds, with accuracies that are written into their logs."""
    root = tmp_path_factory.mktemp("runs")
    for (attention, layers), accuracies in ACCURACY.items():
        for seed, accuracy in enumerate(accuracies):
            model = {**SMALL["model"], "attention": attention, "n_layers": layers}
            out = root / f"{attention}-{layers}-{seed}"
            run = workbench.train("chain-chacal", out=out, progress=False, **{**SMALL, "model": model, "seed": seed})
            line = json.dumps({"step": 0, "accuracy": accuracy, "test_loss": 2 - accuracy})
            (run.path / "metrics.jsonl").write_text(line + "\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def runs(folder: Path) -> list[Run]:
    return [load_run(path) for path in sorted(folder.iterdir())]


BY = ["model.attention", "model.n_layers"]


def test_every_group_has_its_mean_its_interval_and_its_seeds(runs: list[Run]) -> None:
    table = results_table(runs, BY, "accuracy")
    assert list(zip(table["model.attention"], table["model.n_layers"], strict=True)) == sorted(ACCURACY)
    for row in table.to_dict("records"):
        own = np.array(ACCURACY[row["model.attention"], row["model.n_layers"]])
        assert row["n"] == 3 and row["mean"] == pytest.approx(own.mean())
        low, high = intervals.bounded(own, 0.0, 1.0)
        assert (row["low"], row["high"]) == pytest.approx((float(low), float(high)))
        assert row["low"] < own.mean() < row["high"] or own.mean() > 0.98


def test_differences_are_from_one_group_and_adjusted_for_their_number(runs: list[Run]) -> None:
    table = results_table(runs, BY, "test_loss", against="standard, 1").set_index(BY)
    assert table.loc[("standard", 1), ["difference", "p"]].isna().all()
    others = [("chacal", 1), ("standard", 2)]
    base = 2 - np.array(ACCURACY["standard", 1])
    raw = [float(p_values.relabelled(base, 2 - np.array(ACCURACY[group]))) for group in others]
    assert table.loc[others, "p"].to_list() == pytest.approx(p_values.holm(np.array(raw)).tolist())
    for group in others:
        row = table.loc[group]
        assert row["difference"] == pytest.approx(base.mean() * -1 + (2 - np.array(ACCURACY[group])).mean())
        assert row["difference_low"] < row["difference"] < row["difference_high"]


def test_what_cannot_be_put_in_one_row_is_said(runs: list[Run], folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'standard' differ in model\.n_layers too"):
        results_table(runs, ["model.attention"], "accuracy")
    with pytest.raises(ValueError, match="have the seed 0: choose one"):
        results_table([*runs, runs[0]], BY, "accuracy")
    with pytest.raises(ValueError, match=r"no run has 'model\.layers'; there is: model\.n_layers"):
        results_table(runs, ["model.layers"], "accuracy")
    with pytest.raises(ValueError, match="has not logged 'precision'; it has: accuracy, test_loss"):
        results_table(runs, BY, "precision")
    workbench.compile("chaser", tmp_path / "by-hand")
    with pytest.raises(ValueError, match="by-hand has not logged 'accuracy'; it has no log"):
        results_table([workbench.load_run(tmp_path / "by-hand")], BY, "accuracy")
    with pytest.raises(ValueError, match="no group 'standard' to compare with; there is: chacal, 1; standard, 1"):
        results_table(runs, BY, "accuracy", against="standard")


def test_the_command_writes_each_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*more: str) -> str:
        assert main(["table", str(folder), "--by", ",".join(BY), *more]) == 0
        return capsys.readouterr().out

    assert "55% [" in said() and "seeds" in said()
    frame = pd.read_csv(StringIO(said("--csv", "--against", "chacal, 1")))
    assert len(frame) == 3 and frame["p"].notna().sum() == 2
    assert said("--markdown", "--where", "model.n_layers=2").count("\n") == 3
    latex = said("--latex")
    assert (
        latex.startswith("\\begin{tabular}{lrlr}")
        and "accuracy {[}95 \\%{]}" in latex
        and "55\\% {[}" in latex
        and "model.n\\_layers" in latex
    )
    assert main(["table", str(folder), "--by", "model.n_layers"]) == 2
    assert "add that to --by" in capsys.readouterr().err
    assert main(["runs", "--root", str(folder), "--csv"]) == 0
    assert len(pd.read_csv(StringIO(capsys.readouterr().out))) == 9


def test_signs_that_mean_something_to_latex_or_markdown_are_escaped() -> None:
    rows = [["a_b & 50 %", "γ < 1", "1.5"], ["x|y", "–", "2"]]
    latex = as_latex(["name", "what", "n"], rows)
    assert r"a\_b \& 50 \% & $\gamma$ $<$ 1 & 1.5 \\" in latex and latex.startswith(r"\begin{tabular}{llr}")
    assert "| x&#124;y | – | 2 |" in as_markdown(["name", "what", "n"], rows)


@pytest.mark.skipif(
    shutil.which("pdflatex") is None, reason="needs pdflatex: apt-get install texlive-latex-recommended"
)
def test_the_latex_table_compiles_whatever_names_hold(tmp_path: Path) -> None:
    """A list first in a row, Greek, the delimiter's sign, and all that LaTeX takes for its own."""
    rows = [["[2, 10]", "α β γ δ λ ω", "1.5"], ["a\\b ~ ^ {x} #1 $2 50 % & <y>", "⊥ ≥ ≤ × · − – → ∞ … é", "2"]]
    table = as_latex(["task.lengths", "what_is it", "n"], rows)
    page = f"\\documentclass{{article}}\\usepackage{{booktabs}}\\begin{{document}}\n{table}\n\\end{{document}}\n"
    (tmp_path / "table.tex").write_text(page, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "table.pdf").is_file(), done.stdout[-800:]


def test_without_settings_a_row_is_a_group_of_runs_that_differ_in_their_seed_alone(runs: list[Run]) -> None:
    every = workbench.table(runs)
    assert list(every.by) == BY and every.frame.equals(workbench.table(runs, BY).frame)
    alike = workbench.table([run for run in runs if "standard-1" in run.name])
    assert alike.by == [] and alike.frame["n"].tolist() == [3] and alike.says.startswith("all: accuracy ")
