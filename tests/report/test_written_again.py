"""A report written where one is already: nothing of the former is left, and what is not a report's stays."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench.cli import main
from workbench.report import FILES, Report, inspect


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
    (out / FILES).write_text(json.dumps({"files": ["../outside.txt", str(outside), "data/sorter/overall.csv"]}))
    quick(compiled / "chaser", out=out)
    assert outside.exists() and not (out / "data" / "sorter" / "overall.csv").exists()
    before = files(out)
    for damaged in ("", "[]", '{"files": 3}', '{"files": [3]}'):
        (out / FILES).write_text(damaged)
        with pytest.raises(ValueError, match=r"is no list of files; move .* away, or give another folder"):
            quick(compiled / "chaser", out=out)
    (out / FILES).unlink()
    with pytest.raises(ValueError, match="has a report without a list of its files"):
        quick(compiled / "chaser", out=out)
    assert files(out) == {name: content for name, content in before.items() if name != FILES}


def test_data_of_ones_own_in_the_folder_stay(compiled: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.csv").write_text("my own")
    quick(compiled / "sorter", out=tmp_path)
    quick(compiled / "sorter", out=tmp_path)
    assert (tmp_path / "data" / "mine.csv").read_text() == "my own"
