"""An option that a command would pass over is refused in a line that says so."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import workbench
from workbench.cli import main


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("study list chain-layers", "`workbench study list` takes no name; leave out chain-layers"),
        ("study list --seeds 5", "--seeds is not of `workbench study list`"),
        ("study show chain-layers --scale nosuch", "--scale is not of `workbench study show`"),
        ("study show chain-layers --seeds 5", "--seeds is not of `workbench study show`"),
        ("study show chain-layers --all", "--all is not of `workbench study show`"),
        ("study run chain-layers --out pages", "--out is not of `workbench study run`"),
        ("study report --workers 3", "--workers is not of `workbench study report`"),
        ("study report --text F", "--text is not of `workbench study report`"),
        ("study zoo some", "`workbench study zoo` takes no name; leave out some"),
        ("study zoo --ray auto", "--ray is not of `workbench study zoo`"),
        ("study run chain-layers --text F", "--text is of fine-tuning"),
        ("study run finetuned-perplexity --model M", "--model is of fine-tuning"),
        ("study run finetuned-multiplication --scale paper --model M --text F", "--text is of fine-tuning"),
        ("runs --root . --yes", "--yes is of deleting; give --delete too"),
        ("runs a --root . --delete --csv", "--csv shows runs, and --delete deletes them"),
        ("runs a --root . --delete --compare", "--compare shows runs"),
        (
            "finetune M --text F --out o --gamma 0.9 --attention.gamma 0.5",
            "--gamma is given, and --attention.gamma too",
        ),
        ("finetune M --task sorting --out o --task.name lis", "--task is given, and --task.name too"),
        ("finetune M --text F --out o --seq-vcr 1 --seq_vcr.layer 2", "--seq-vcr is given, and --seq_vcr.layer too"),
        ("finetune M --text F --out o --attention standard --attention.variant chacal", "--attention is given, and"),
        ("resume folder --track tensorboard", "--track is of runs that `workbench train` makes"),
    ],
)
def test_an_option_that_would_be_passed_over_is_refused(
    line: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/finetune.json").write_text("{}")
    before = sorted(tmp_path.rglob("*"))
    assert main(line.split()) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before


def test_a_study_takes_nothing_from_elsewhere_that_it_does_not_use(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="chain-layers takes no text from elsewhere at scale small"):
        workbench.studies.run_study("chain-layers", root=tmp_path, given={"text": "F"})


def test_a_comparison_is_written_as_csv_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = {"task": {"n": 8, "k": 2}, "eval_size": 8, "batch_size": 4, "model": {"d_model": 16}}
    for seed in (0, 1):
        workbench.train("chain-chacal", out=tmp_path / f"seed-{seed}", progress=False, steps=0, seed=seed, **small)
    assert main(["runs", "--root", str(tmp_path), "--compare", "--csv"]) == 0
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["", "seed-0", "seed-1"] and ["seed", "0", "1"] in rows
