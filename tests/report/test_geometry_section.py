"""The report has the geometry of many sequences of each run when it is asked for, or says why it has none."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from workbench.cli import main
from workbench.inspection.geometry import geometry
from workbench.report import inspect
from workbench.runs import load_run


def test_runs_stand_side_by_side_and_the_numbers_are_those_of_the_library(compiled: Path) -> None:
    out = compiled / "report"
    given = ["--n", "96", "--only", "accuracy", "--geometry", "--quiet", "--out", str(out)]
    assert main(["inspect", str(compiled / "sorter"), str(compiled / "chaser"), *given]) == 0
    html = (out / "report.html").read_text(encoding="utf-8")
    section = html[html.index("<h2>Over many sequences</h2>") :].split("</section>")[0]
    assert section.count("plotly-graph-div") == 4
    assert "of 96 sequences together" in section and "groups of pairs" in section
    assert "sorter: RankMe is" in section and "chaser: InfoNCE is" in section and "shuffled answers" in section
    alone = geometry(load_run(compiled / "sorter"), n=96, seed=0, only=["lidar"])
    frame = pd.read_parquet(out / "data" / "sorter" / "geometry" / "lidar.parquet")
    assert frame["value"].to_numpy() == pytest.approx(alone["lidar"].values)
    control = pd.read_parquet(out / "data" / "sorter" / "geometry" / "lidar.shuffled-answers.parquet")
    assert control["value"].to_numpy() == pytest.approx(alone.controls["lidar"]["shuffled answers"].values)


def test_what_too_few_sequences_do_not_allow_is_said_and_the_rest_is_there(compiled: Path) -> None:
    report = inspect([compiled / "sorter"], out=compiled / "few", n=3, only=["accuracy"], geometry=True)
    html = report.html.read_text(encoding="utf-8")
    (one,) = report.geometries.values()
    assert "rankme" in one.measured and {"dime", "infonce"} <= set(one.left_out)
    assert "sorter: infonce was left out" in html


def test_a_report_has_no_geometry_unless_it_is_asked_for(compiled: Path) -> None:
    plain = inspect([compiled / "sorter"], out=compiled / "plain", n=8, only=["accuracy"])
    assert not plain.geometries and "Over many sequences" not in plain.html.read_text(encoding="utf-8")
