"""A report written where one is already: nothing of the former is left, and what is not a report's stays."""

from __future__ import annotations

import errno
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench import report
from workbench.cli import main
from workbench.report import FILES, Report, inspect
from workbench.runs import Run


def quick(*runs: Path, out: Path, only: tuple[str, ...] = ("overall",), **more: Any) -> Report:
    return inspect(list(runs), out=out, n=4, only=only, **more)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_is_left_of_the_report_before(compiled: Path, tmp_path: Path) -> None:
    """Neither another run's numbers, nor measures, figures and comparisons that were not made again."""
    out = tmp_path / "out"
    quick(compiled / "chaser", compiled / "sorter", out=out, only=("overall", "entropy"), export=["html"])
    (out / "data" / "sorter" / "mine.csv").write_text("my own")
    (out / "notes.txt").write_text("my own")
    quick(compiled / "chaser", out=out)
    alone = quick(compiled / "chaser", out=tmp_path / "alone")
    own = {"data/sorter/mine.csv", "notes.txt"}
    assert {*files(out)} - own == {*files(alone.html.parent)} and own <= {*files(out)}
    assert not (out / "figures").exists()


def test_a_disk_that_fills_up_names_the_folder_and_leaves_the_report_before(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    quick(compiled / "sorter", out=out)
    before = files(out)
    to_csv = pd.DataFrame.to_csv

    def full(frame: pd.DataFrame, path: Path, **options: object) -> None:
        if "overall" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        to_csv(frame, path, **options)

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    for folder in (out, tmp_path / "other"):
        command = ["inspect", str(compiled / "sorter"), "--n", "4", "--only", "entropy", "overall", "--quiet"]
        assert main([*command, "--out", str(folder)]) == 1
        assert capsys.readouterr().err == f"workbench: [Errno 28] No space left on device: '{folder}'\n"
    assert files(out) == before and not (tmp_path / "other").exists()


def test_a_report_that_does_not_say_what_it_wrote_is_not_mixed_with_another(compiled: Path, tmp_path: Path) -> None:
    """An older one, or one with a damaged list; a list that a stranger wrote reaches nothing outside its folder."""
    out, outside = tmp_path / "out", tmp_path / "outside.txt"
    outside.write_text("not in the report")
    quick(compiled / "sorter", out=out)
    (out / FILES).write_text(
        json.dumps({"files": ["report.html", "../outside.txt", str(outside), "data/sorter/overall.csv"]})
    )
    quick(compiled / "chaser", out=out)
    assert outside.exists() and not (out / "data" / "sorter" / "overall.csv").exists()
    before = files(out)
    for damaged in ("", "[]", '{"files": 3}', '{"files": [3]}'):
        (out / FILES).write_text(damaged)
        with pytest.raises(ValueError, match=r"is no list of files; move .* away, or give another folder"):
            quick(compiled / "chaser", out=out)
    (out / FILES).unlink()
    with pytest.raises(ValueError, match=r"report\.html is there already, and report_files\.json does not list it"):
        quick(compiled / "chaser", out=out)
    assert files(out) == {name: content for name, content in before.items() if name != FILES}


def test_data_of_ones_own_in_the_folder_stay(compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.csv").write_text("my own")
    quick(compiled / "sorter", out=tmp_path)
    quick(compiled / "sorter", out=tmp_path)
    assert (tmp_path / "data" / "mine.csv").read_text() == "my own"


@pytest.mark.parametrize(
    "name", ["report.html", "data/a/overall.csv", "data/a/overall.json/mine", "data/a", "data/comparison.csv"]
)
def test_a_file_of_ones_own_is_not_taken_over_but_said_before_anything_is_measured(
    name: str, compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("a", "b"):
        shutil.copytree(compiled / "sorter", tmp_path / run)
    own = tmp_path / "out" / name
    own.parent.mkdir(parents=True)
    own.write_text("my own")
    before = files(tmp_path)
    monkeypatch.setattr(report, "inspect_run", None)  # would be called to measure
    taken = own.parent if own.name == "mine" else own
    with pytest.raises(ValueError, match=rf"^{re.escape(str(taken))} is (there already, and|a file, not a folder)"):
        quick(tmp_path / "a", tmp_path / "b", out=tmp_path / "out")
    assert files(tmp_path) == before


@pytest.mark.parametrize("name", ["data/sorter/circuit/circuit.json", "figures"])
def test_a_file_of_ones_own_whose_name_is_known_only_at_the_end_is_not_taken_over(
    name: str, compiled: Path, tmp_path: Path
) -> None:
    """Nor is anything of the report before replaced."""
    out = tmp_path / "out"
    quick(compiled / "chaser", out=out)
    (out / name).parent.mkdir(exist_ok=True, parents=True)
    (out / name).write_text("my own")
    before = files(out)
    with pytest.raises(ValueError, match=rf"^{re.escape(str(out / name))} is "):
        quick(compiled / "sorter", out=out, circuit=True, export=["html"])
    assert files(out) == before


def test_of_two_reports_into_one_folder_the_second_is_refused_before_it_measures(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first was said to be there, and was replaced; where nothing is written, nothing is left of the lock."""
    out, measure = tmp_path / "above" / "out", report.inspect_run

    def meanwhile(run: Run, **options: Any) -> Any:
        monkeypatch.setattr(report, "inspect_run", measure)
        with pytest.raises(ValueError, match=r"^another process writes a report into .*out; wait for it, or give"):
            quick(compiled / "chaser", out=out)
        return measure(run, **options)

    monkeypatch.setattr(report, "inspect_run", meanwhile)
    assert quick(compiled / "sorter", out=out).inspected[0].name == "sorter"
    assert (out / "data" / "sorter").is_dir() and not (out / ".lock").exists()
    shutil.rmtree(tmp_path / "above")
    with pytest.raises(ValueError, match="nothing that was asked for can be measured"):
        quick(compiled / "chaser", out=out, only=("successor",))
    assert not (tmp_path / "above").exists()
