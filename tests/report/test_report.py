from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import workbench
from workbench.inspection import inspect_run
from workbench.inspection.seed_groups import seed_groups
from workbench.report import Report, inspect
from workbench.report.sections import sections
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


def test_summary_shows_both_runs_with_accuracy_by_depth_entropy_and_gold_mass(side_by_side: Report) -> None:
    text = side_by_side.says
    assert re.search(r"^ +chain-chacal +chain-standard$", text, re.M)
    for row in (
        "accuracy, per position",
        "  depth 7",
        "  embedding",
        "  after MLP 0",
        "mass on the task's true paths, best head",
    ):
        assert re.search(rf"^{row} .*\d", text, re.M), row
    assert not re.search(r"\bnan\b", text)


def test_report_is_one_file_that_needs_nothing_else(side_by_side: Report) -> None:
    html = side_by_side.html.read_text(encoding="utf-8")
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="http', html)
    assert html.count('class="plotly-graph-div"') >= 8
    for title in (
        "Accuracy",
        "Matrix entropy",
        "Mechanisms",
        "The two runs compared",
        "Attention on one sequence: chain-chacal",
    ):
        assert f"<h2>{title}" in html.replace("&#x27;", "'")


def test_numbers_on_disk_agree_with_each_other_and_with_the_summary(side_by_side: Report) -> None:
    data = side_by_side.html.parent / "data" / "chain-chacal"
    stems = {path.stem for path in data.glob("*.json")}
    assert {"overall", "accuracy", "entropy", "projection", "attention_graph", "attention_hops", "gold_mass"} <= stems
    for stem in stems:
        rows = json.loads((data / f"{stem}.json").read_text(encoding="utf-8"))["rows"]
        table = pd.read_parquet(data / f"{stem}.parquet")
        assert len(rows) == len(table) == len(pd.read_csv(data / f"{stem}.csv"))
        pd.testing.assert_series_equal(pd.DataFrame(rows)["value"].astype(float), table["value"], atol=1e-12)
        examples = data / "examples" / f"{stem}.parquet"
        if examples.exists() and set(table.columns) > {"value", "low"}:
            whole = pd.read_parquet(examples)["value"].mean()
            assert whole == pytest.approx(np.average(table["value"], weights=table["n"]), nan_ok=True)
    mass = pd.read_parquet(data / "gold_mass.parquet").astype({"layer": int, "head": int})
    mass = mass.set_index(["layer", "head"])["value"]
    assert (
        f"{mass[next(one.head for one in side_by_side.inspected if one.name == 'chain-chacal')]:.1%}"
        in side_by_side.says
    )


def test_same_seed_measures_the_same_and_other_data_is_told_apart(root: Path, side_by_side: Report) -> None:
    again = inspect([root / "chain-chacal", root / "chain-standard"], out=root / "again", n=64)
    assert again.says == side_by_side.says
    other = inspect([root / "chain-chacal", root / "chain-standard"], out=root / "other", n=64, seed=1)
    assert other.says != side_by_side.says


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
    assert [row for row in rows if row not in report.says] == []


def test_tasks_of_different_kinds_share_a_report(root: Path) -> None:
    report = inspect([root / "chain-chacal", root / "sort-tempered"], out=root / "mixed", n=32)
    assert "depth 1" in report.says and "length 2" in report.says


def test_unusable_input_writes_nothing(root: Path) -> None:
    with pytest.raises(ValueError, match="n=2"):
        inspect([root / "chain-chacal"], out=root / "never", n=1)
    with pytest.raises(ValueError, match="named twice"):
        inspect([root / "chain-chacal", root / "chain-chacal"], out=root / "never")
    with pytest.raises(ValueError, match="no run folder"):
        inspect([root / "chain-chacal", root / "missing"], out=root / "never")
    for wrong, said in (
        ({"only": ["entropi"]}, "did you mean 'entropy'"),
        ({"only": ["minimum"]}, "nothing that was asked for can be measured; minimum: "),
        ({"settings": {"entropy": {"alfa": 2}}}, "entropy has no setting 'alfa'; there is: alpha"),
        ({"settings": {"entropy": {"alpha": -1}}}, "alpha > 0"),
        ({"settings": {"entropy": {"points": []}}}, "entropy.points is empty, which leaves nothing to measure"),
        ({"only": ["path_mass"], "settings": {"path_mass": {"n_hops": 0}}}, "n_hops must be at least 1, not 0"),
        ({"only": ["alpha_req"], "settings": {"alpha_req": {"first": 99}}}, "alpha_req with first=99 measures nothing"),
        ({"export": ["gif"]}, "there is: html, svg, png, pdf"),
    ):
        with pytest.raises(ValueError, match=said):
            inspect([root / "chain-chacal"], out=root / "never", n=8, **wrong)  # type: ignore[arg-type]
    assert not (root / "never").exists()


def test_only_what_is_asked_for_is_measured_with_its_settings(root: Path, tmp_path: Path) -> None:
    settings = {"entropy": {"alpha": 2.0, "centre": True}}
    report = inspect([root / "chain-chacal"], out=tmp_path, n=8, only=["entropy"], settings=settings)
    (one,) = report.inspected
    assert list(one) == ["entropy"] and one["entropy"].mean.settings["alpha"] == 2
    assert "α = 2, centred" in report.says and "accuracy" not in report.says


def test_every_figure_is_exported_and_its_numbers_are_those_on_disk(root: Path, tmp_path: Path) -> None:
    pytest.importorskip("kaleido")
    report = inspect(
        [root / "chain-chacal"], out=tmp_path, n=8, only=["accuracy", "entropy"], export=["html", "svg", "png", "pdf"]
    )
    assert {path.suffix for path in report.figures} == {".html", ".svg", ".png", ".pdf"}
    names = [path.stem for path in report.figures if path.suffix == ".pdf"]
    assert len({path.stem for path in report.figures}) * 4 == len(report.figures) == 4 * len(names)
    assert all(path.stat().st_size > 1000 for path in report.figures)
    assert all(path.read_bytes().startswith(b"%PDF") for path in report.figures if path.suffix == ".pdf")
    assert names[0] == "accuracy-by-depth" and "matrix-entropy-matrix-entropy-by-layer" not in names
    assert not any(name.rsplit("-", 1)[-1].isdigit() for name in names), names
    (drawn,) = (part for part in sections(report.inspected) if part.title.startswith("Accuracy"))
    table = pd.read_csv(tmp_path / "data" / "chain-chacal" / "accuracy.csv")
    line = drawn.drawn[0].data[0]
    assert list(line.y) == pytest.approx(table["value"].tolist()) and list(map(int, line.x)) == table["depth"].tolist()
    assert list(line.error_y.array) == pytest.approx((table["high"] - table["value"]).tolist())
    shown = json.loads(
        re.search(r"Plotly.newPlot\(\s*\"[^\"]+\",\s*(\[.*?\}\]),\s*\{", page_of(tmp_path), re.S).group(1)
    )  # type: ignore[union-attr]
    assert shown[0]["name"] == "chain-chacal"


def page_of(folder: Path) -> str:
    (path,) = (folder / "figures").glob("accuracy-by-depth.html")
    return path.read_text(encoding="utf-8")


def test_seeds_of_one_config_are_taken_together(tmp_path: Path) -> None:
    for seed in (0, 1, 2):
        workbench.train("chain-chacal", out=tmp_path / f"seed-{seed}", progress=False, seed=seed, **SHORT)
    workbench.train("chain-standard", out=tmp_path / "other" / "seed-0", progress=False, **SHORT)
    paths = [*(tmp_path / f"seed-{seed}" for seed in (0, 1, 2)), tmp_path / "other" / "seed-0"]
    report = inspect(paths, out=tmp_path / "report", n=8)
    (together,) = (one for one in seed_groups(report.inspected) if not one.alone)
    assert [one.run.config.seed for one in together.members] == [0, 1, 2]
    own = [float(one["overall"].mean.select(unit="position").values) for one in report.inspected[:3]]
    pooled = together["overall"].mean.select(unit="position")
    assert pooled.values == pytest.approx(np.mean(own)) and pooled.n == 3
    assert "mean of seeds 0, 1, 2" in report.says and together.name in report.says
    assert (tmp_path / "report" / "data" / together.name / "accuracy.csv").is_file()
    assert report.differences is None


def test_two_runs_are_compared_on_the_same_examples(side_by_side: Report) -> None:
    differences = side_by_side.differences
    assert differences is not None and len(differences) > 10
    row = differences.query("measure == 'overall' and place == 'per position'").iloc[0]
    first, second = (float(one["overall"].mean.select(unit="position").values) for one in side_by_side.inspected)
    assert row["difference"] == pytest.approx(second - first) and row["n"] == 64
    html = side_by_side.html.read_text(encoding="utf-8")
    for text in (side_by_side.says, html):
        assert "adjusted after Holm" in text and "not about two methods" in text


OTHER_TASKS = {
    "boxes": {"style": "advanced", "max_operations": 8, "n_boxes": 4},
    "box_moves": {"n_boxes": 3, "n_filled": 2, "min_moves": 1, "max_moves": 3},
    "increment": {"max_length": 5, "test_max_length": 7},
    "arithmetic": {"operators": 3, "min_operators": 1},
    "lis": {"length": 8, "values": 30},
    "text": {"path": __file__, "block": 32},
    "modular_addition": {"p": 31},
    "associative_recall": {"d_vocab": 16, "length": 16, "pairs": 2},
    "induction": {"q": 12, "max_length": 8},
    "state_tracking": {"states_of": "S3", "length": 6},
    "dyck": {"length": 12},
}


@pytest.mark.parametrize("name", OTHER_TASKS)
def test_every_task_trains_and_is_inspected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEXTS, str(Path(__file__).parent))
    task = {"name": name, **OTHER_TASKS[name]}
    run = workbench.train("chain-chacal", out=tmp_path / "run", progress=False, task=task, **{**SHORT, "steps": 3})
    report = inspect([run.path], n=16)
    assert "accuracy, per" in report.says and report.html.stat().st_size > 10_000
    assert ("the task's true paths" in report.says) == (name != "text")


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
            end = last[name].mean
            assert (measurement.values[-1] == end.values).all() or pd.isna(end.values).any()
        at_20 = inspect_run(line.run, n=32, seed=0, step=20, head=last.head)["entropy"].mean
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
