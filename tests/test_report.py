from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import workbench
from workbench.inspection import inspect_run
from workbench.report import Report, inspect
from workbench.tasks import TEXTS

SHORT = {"steps": 30, "eval_size": 16, "batch_size": 16, "warmup": 2}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of three tasks, trained too briefly to be good."""
    root = tmp_path_factory.mktemp("runs")
    for preset in ("chain-chacal", "chain-standard", "sort-tempered", "multiply-seqvcr"):
        workbench.train(preset, out=root / preset, progress=False, **SHORT)
    return root


@pytest.fixture(scope="module")
def side_by_side(root: Path) -> Report:
    return inspect([root / "chain-chacal", root / "chain-standard"], out=root / "report", n=64)


def test_summary_shows_both_runs_with_accuracy_by_hop_entropy_and_gold_mass(side_by_side: Report) -> None:
    text = side_by_side.summary
    assert re.search(r"^ +chain-chacal +chain-standard$", text, re.M)
    for row in (
        "accuracy, per position",
        "  hop 7",
        "  embedding",
        "  0 · post",
        "resolvent's mass on gold paths, best head",
    ):
        assert re.search(rf"^{row} .*\d", text, re.M), row
    assert "nan" not in text


def test_report_is_one_file_that_needs_nothing_else(side_by_side: Report) -> None:
    html = side_by_side.html.read_text(encoding="utf-8")
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="http', html)
    assert html.count('class="plotly-graph-div"') >= 8
    for title in ("Accuracy", "Entropy", "Mechanisms", "Attention against the task's graph: chain-chacal"):
        assert f"<h2>{title}" in html.replace("&#x27;", "'")


def test_numbers_on_disk_agree_with_each_other_and_with_the_summary(side_by_side: Report) -> None:
    data = side_by_side.html.parent / "data" / "chain-chacal"
    stems = {path.stem for path in data.glob("*.json")}
    assert {"overall", "accuracy", "entropy", "projection", "attention_graph", "attention_hops", "gold_mass"} <= stems
    for stem in stems:
        rows = json.loads((data / f"{stem}.json").read_text(encoding="utf-8"))["rows"]
        table = pd.read_parquet(data / f"{stem}.parquet")
        assert len(rows) == len(table)
        pd.testing.assert_series_equal(pd.DataFrame(rows)["value"].astype(float), table["value"], atol=1e-12)
    mass = pd.read_parquet(data / "gold_mass.parquet")
    assert f"{mass['value'][0]:.1%}" in side_by_side.summary


def test_same_seed_measures_the_same_and_other_data_is_told_apart(root: Path, side_by_side: Report) -> None:
    again = inspect([root / "chain-chacal", root / "chain-standard"], out=root / "again", n=64)
    assert again.summary == side_by_side.summary
    other = inspect([root / "chain-chacal", root / "chain-standard"], out=root / "other", n=64, seed=1)
    assert other.summary != side_by_side.summary


@pytest.mark.parametrize(
    ("preset", "rows"),
    [
        ("sort-tempered", ["length 2", "length 20", "Copy before the delimiter", "Minimum at", "Identity + successor"]),
        ("multiply-seqvcr", ["digit 0", "digit 3", "embedding"]),
    ],
)
def test_every_task_is_reported_in_its_own_terms(root: Path, preset: str, rows: list[str]) -> None:
    report = inspect([root / preset], n=32)
    assert report.html == root / preset / "inspection" / "report.html"
    assert [row for row in rows if row not in report.summary] == []


def test_tasks_of_different_kinds_share_a_report(root: Path) -> None:
    report = inspect([root / "chain-chacal", root / "sort-tempered"], out=root / "mixed", n=32)
    assert "hop 1" in report.summary and "length 2" in report.summary


def test_unusable_input_writes_nothing(root: Path) -> None:
    with pytest.raises(ValueError, match="n=2"):
        inspect([root / "chain-chacal"], out=root / "never", n=1)
    with pytest.raises(ValueError, match="told apart"):
        inspect([root / "chain-chacal", root / "chain-chacal"], out=root / "never")
    with pytest.raises(ValueError, match="no run folder"):
        inspect([root / "chain-chacal", root / "missing"], out=root / "never")
    assert not (root / "never").exists()


OTHER_TASKS = {
    "boxes": {"style": "advanced", "max_operations": 8, "n_boxes": 4},
    "increment": {"max_length": 5, "test_max_length": 7},
    "arithmetic": {"operators": 3, "min_operators": 1},
    "lis": {"length": 8, "values": 30},
    "text": {"path": __file__, "block": 32},
}


@pytest.mark.parametrize("name", OTHER_TASKS)
def test_every_task_trains_and_is_inspected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEXTS, str(Path(__file__).parent))
    task = {"name": name, **OTHER_TASKS[name]}
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, task=task, **{**SHORT, "steps": 3})
    report = inspect([run.path], n=16)
    assert "accuracy, per" in report.summary and report.html.stat().st_size > 10_000
    assert ("gold paths" in report.summary) == (name != "text")


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Report:
    root = tmp_path_factory.mktemp("timeline")
    kept = {"steps": 60, "checkpoint_every": 20, "checkpoint_at": [0.03], "eval_every": 10}
    for preset in ("chain-chacal", "sort-standard"):
        workbench.train(preset, out=root / preset, progress=False, **SHORT | kept)
    return inspect([root / "chain-chacal", root / "sort-standard"], out=root / "report", n=32, timeline=True)


def test_a_timeline_measures_each_checkpoint_as_that_model_is(followed: Report) -> None:
    for line, last in zip(followed.timelines, followed.inspected, strict=True):
        assert line.steps == sorted({0, 20, 40, 60} | set(line.run.checkpoints())) and line.steps[-1] == 60
        for name, measurement in line.measured.items():
            assert measurement.dims[0] == "step" and list(measurement.coords["step"]) == line.steps
            end = last.gold_mass if name == "gold_mass" else last.measured[name]
            assert end is not None
            assert (measurement.values[-1] == end.values).all() or pd.isna(end.values).any()
        at_20 = inspect_run(line.run, n=32, seed=0, step=20, head=last.shown_head).measured["entropy"]
        assert line.measured["entropy"].select(step=20).values.tolist() == at_20.values.tolist()


def test_a_timeline_is_in_the_report_with_its_events_and_on_disk(followed: Report) -> None:
    html = followed.html.read_text(encoding="utf-8")
    assert "<h2>Over training: chain-chacal" in html and "<h2>Over training: sort-standard" in html
    assert "accuracy \\u2265 3%" in html or "accuracy ≥ 3%" in html
    table = pd.read_parquet(followed.html.parent / "data" / "chain-chacal" / "timeline" / "accuracy.parquet")
    assert set(table["step"].astype(int)) == set(followed.timelines[0].steps)


def test_a_run_without_checkpoints_has_no_timeline_and_says_how_to_get_one(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no checkpoints to draw a timeline of; train it with --checkpoint_count 20"):
        inspect([root / "chain-chacal"], out=tmp_path / "report", n=8, timeline=True)
    assert not (tmp_path / "report").exists()
