"""Comparisons in a report: what is shown of many, what a p is about, and groups of seeds over their seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import workbench
from workbench.measurement.compare_runs import ABOUT_P, COLUMNS
from workbench.report import inspect
from workbench.report.comparisons import comparison_heading, comparison_text, difference_rows, surest


def table(measures: dict[str, int], p: float) -> pd.DataFrame:
    """So many rows of each measure, all equally sure, the first measure's effects the smallest."""
    rows = []
    for i, (measure, n) in enumerate(measures.items()):
        for j in range(n):
            effect = 0.1 + 0.1 * i + 0.001 * j
            rows.append((measure, f"place {j}", "share", 0.1, 0.2, 0.1, 0.05, 0.15, 64, effect, p / 10, p))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_of_many_ties_each_measure_is_shown_and_their_number_is_said() -> None:
    differences = table({"spectrum": 100, "entropy": 10, "overall": 2}, 1e-12)
    shown = surest(differences)
    assert len(shown) == 15 and set(shown["measure"]) == {"spectrum", "entropy", "overall"}
    assert shown.iloc[0]["measure"] == "overall" and shown.iloc[0]["effect"] == differences["effect"].max()
    assert shown[shown["measure"] == "spectrum"]["place"].iloc[0] == "place 99"
    heading = comparison_heading(differences)
    assert "112 tie at p (Holm) <0.0001" in heading and "15 shown" in heading and ABOUT_P in heading
    assert comparison_text(heading, differences, "a", "b").startswith(heading)


def test_a_smaller_p_comes_before_a_larger_effect() -> None:
    both = pd.concat([table({"large": 20}, 0.04).assign(effect=0.9), table({"sure": 3}, 0.001)], ignore_index=True)
    assert surest(both)["measure"].tolist()[:3] == ["sure"] * 3
    assert "20 tie at p (Holm) 0.04" in comparison_heading(both)


def test_a_difference_is_in_the_units_of_its_measure_and_no_interval_has_no_width() -> None:
    (row,) = difference_rows(table({"same": 1}, 1.0).assign(low=np.nan, high=np.nan))
    assert row[1:4] == ["10%", "20%", "+10 percentage points"]
    (row,) = difference_rows(table({"same": 1}, 1e-9))
    assert row[3].endswith(" [5, 15]") and row[-2:] == ["<0.0001"] * 2


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("groups")
    short = {"steps": 3, "batch_size": 8, "eval_size": 8, "warmup": 1, "progress": False}
    for preset in ("chain-chacal", "chain-standard"):
        for seed in (0, 1):
            workbench.train(preset, out=root / preset / f"seed-{seed}", seed=seed, **short)
    return root


def test_two_groups_of_seeds_are_compared_over_their_seeds(groups: Path, tmp_path: Path) -> None:
    paths = [groups / preset / f"seed-{seed}" for preset in ("chain-chacal", "chain-standard") for seed in (0, 1)]
    report = inspect(paths, out=tmp_path, n=8, only=["overall", "entropy"])
    (found,) = report.over_seeds
    assert found.seeds == (2, 2) and report.differences is None
    row = found.differences.query("measure == 'overall' and place == 'per position'").iloc[0]
    own = [float(one["overall"].mean.select(unit="position").values) for one in report.inspected]
    assert row["difference"] == pytest.approx(np.mean(own[2:]) - np.mean(own[:2])) and row["n_first"] == 2
    assert found.differences["p"].min() >= 1 / 3  # of 6 ways to share out four seeds, two are as far
    assert "over seeds: " in report.says and "too few for a verdict" in report.says
    assert "<h2>Compared over seeds" in report.html.read_text(encoding="utf-8")
    kept = pd.read_csv(tmp_path / "data" / "comparison_over_seeds.csv")
    assert len(kept) == len(found.differences) and set(kept["first_group"]) == {found.first}


def test_a_figure_of_several_seeds_has_a_dot_for_each(groups: Path, tmp_path: Path) -> None:
    from workbench.report.sections import sections

    paths = [groups / "chain-chacal" / f"seed-{seed}" for seed in (0, 1)]
    report = inspect(paths, out=tmp_path, n=8, only=["accuracy", "entropy"])
    for title in ("Accuracy", "Matrix entropy"):
        (section,) = (one for one in sections(report.inspected) if one.title.startswith(title))
        name = "accuracy" if title == "Accuracy" else "entropy"
        drawn, line = section.drawn[0].data[:2]
        assert drawn.mode == "markers" and drawn.showlegend is False
        expected = np.stack([one[name].mean.values for one in report.inspected], axis=-1)
        kept = expected[~np.isnan(expected).any(-1)]
        assert np.allclose(np.array(drawn.y).reshape(kept.shape), kept)
        assert np.allclose(line.y, kept.mean(-1)) and "a dot for each" in section.drawn[0].layout.title.subtitle.text


def test_a_difference_has_as_many_digits_as_it_needs() -> None:
    """It was "3.028 vs 3.028, difference -0.000 [-0.000, -0.000]"."""
    row = {"measure": "Entropy", "place": "", "units": "nats", "first": 3.02811, "second": 3.02807, "difference": -4e-5}
    row |= {"low": -5e-5, "high": -3e-5, "n": 64, "p": 1e-6, "p_holm": 1e-6, "effect": 1.0}
    (shown,) = difference_rows(pd.DataFrame([row]))
    assert shown[1:4] == ["3.02811 nats", "3.02807 nats", "-0.00004 nats [-0.00005, -0.00003]"]
