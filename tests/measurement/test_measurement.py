"""A measurement's statistics, selections and exports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.conftest import files_of_at_most
from workbench.measurement import Measurement
from workbench.measurement.measurement import interval
from workbench.measurement.units import scale_of


def shares(values: list[list[float]], units: str = "share") -> Measurement:
    array = np.array(values, dtype=float)
    coords = {"layer": [f"l{i}" for i in range(len(array))], "example": range(array.shape[1])}
    return Measurement("Share", array, ("layer", "example"), coords, units, {"model": "m"})


def test_mean_leaves_nan_out_and_counts_the_rest() -> None:
    found = shares([[0.25, 0.75, np.nan], [np.nan, np.nan, np.nan]]).mean()
    assert found.dims == ("layer",) and found.n is not None and found.n.tolist() == [2, 0]
    assert found.values[0] == 0.5 and np.isnan(found.values[1])


@pytest.mark.parametrize("units", ["share", "nats", "inner product"])
def test_the_mean_of_no_example_is_not_known(units: str) -> None:
    found = shares([[], []], units).mean()
    assert found.n is not None and found.n.tolist() == [0, 0]
    assert all(np.isnan(one).all() for one in (found.values, found.low, found.high))


def test_interval_of_a_mean_is_a_bootstraps() -> None:
    values = np.random.default_rng(0).normal(0.5, 0.1, size=80)
    found = shares([values.tolist()], units="nats").mean()
    half = 1.96 * values.std(ddof=1) / np.sqrt(80)
    assert found.low is not None and found.high is not None
    assert found.low[0] == pytest.approx(values.mean() - half, abs=0.15 * half)
    assert found.high[0] == pytest.approx(values.mean() + half, abs=0.15 * half)


def test_interval_of_yes_or_no_shares_keeps_its_width_at_the_ends() -> None:
    found = shares([[1.0] * 50, [0.0] * 50]).mean()
    assert found.low is not None and found.high is not None
    assert found.high[0] == pytest.approx(1)
    assert found.low[0] == pytest.approx(stats.beta.ppf(0.025, 50.5, 0.5), abs=2e-3)
    assert found.low[1] == 0 and found.high[1] == pytest.approx(1 - found.low[0], abs=1e-5)


def test_equal_values_in_other_units_do_not_tell_how_they_vary() -> None:
    found = shares([[0.0] * 5], units="nats").mean()
    assert found.low is not None and found.high is not None
    assert np.isnan(found.low[0]) and np.isnan(found.high[0]) and found.values[0] == 0


@pytest.mark.parametrize("units", ["share", "nats", "positions"])
@pytest.mark.parametrize("n", [2, 5, 64, 256])
def test_numbers_that_are_equal_but_for_rounding_have_no_interval_beside_their_mean(units: str, n: int) -> None:
    """What depends on the weights alone comes out a hair different from batch to batch."""
    for value in (1e-3, 0.3, 1 / 3, 0.9):
        exact = np.full(n, value)
        for values in (exact, exact.astype(np.float32), exact * np.where(np.arange(n) < n // 2, 1, 1 + 1e-8)):
            found = Measurement("Weights", values, ("example",), {"example": range(n)}, units).mean()
            assert found.low is not None and found.high is not None
            if units == "share":  # may be outcomes, of which a sample need not show every kind
                assert found.low <= found.values <= found.high and found.high - found.low > 1e-3
            else:
                assert np.isnan(found.low) and np.isnan(found.high)


@pytest.mark.parametrize(
    ("units", "least", "most"),
    [
        ("share", 0, 1),
        ("difference in share", -1, 1),
        ("difference of shares", -1, 1),
        ("share of the trace", 0, 1),
        ("nats", 0, np.inf),
        ("difference in nats", -np.inf, np.inf),
        ("R²", -np.inf, 1),
        ("cosine", -1, 1),
        ("see measure", -np.inf, np.inf),
    ],
)
def test_an_interval_is_within_what_is_possible(units: str, least: float, most: float) -> None:
    assert (scale_of(units).least, scale_of(units).most) == (least, most)
    draws = np.random.default_rng(0)
    values = np.clip(draws.normal(0.02, 0.5, size=(200, 4)), max(least, -1), 1)
    low, high = interval(values, units)
    known = ~np.isnan(low)
    assert known.mean() > 0.7 and (low[known] >= least).all() and (high[known] <= most).all()
    assert (high[known] > low[known]).all()


def test_values_beyond_the_range_of_their_units_are_not_cut() -> None:
    low, high = interval(np.array([[-3.0, -2.5, -4.0]]), "nats")  # log-probabilities
    assert low[0] < -3 < high[0] < 0


def test_what_each_seed_has_goes_along_with_every_part() -> None:
    values = np.arange(6.0).reshape(2, 3) / 10
    runs = Measurement("T", values, ("layer", "seed"), {"layer": ["a", "b"], "seed": [0, 1, 2]}, "share").mean("seed")
    assert runs.each is not None and runs.each.tolist() == values.tolist()
    for part, expected in (
        (runs.select(layer="b"), values[1]),
        (runs.keep("layer", ["b"]), values[1:]),
        (Measurement.stack([runs, runs], "length", [1, 2]).select(length=2), values),
    ):
        assert part.each is not None and part.each.tolist() == expected.tolist()


def test_interval_of_a_share_stays_between_zero_and_one() -> None:
    found = shares([[0.99, 1.0, 1.0, 0.2], [0.0, 0.0, 0.0, 0.9]]).mean()
    assert found.low is not None and found.high is not None
    assert found.high[0] <= 1 and found.low[1] >= 0


def test_joining_batches_equals_measuring_them_together() -> None:
    whole = shares([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    joined = Measurement.join([shares([[0.1], [0.4]]), shares([[0.2, 0.3], [0.5, 0.6]])])
    assert np.array_equal(joined.values, whole.values) and list(joined.coords["example"]) == [0, 1, 2]


def test_selecting_takes_one_label_and_remembers_it() -> None:
    found = shares([[0.1, 0.2], [0.4, 0.5]]).mean().select(layer="l1")
    assert found.dims == () and found.values == 0.45 and found.settings == {"model": "m", "layer": "l1"}
    assert found.n == 2 and found.low is not None and found.low.shape == ()


def test_keeping_some_labels_keeps_their_intervals() -> None:
    whole = shares([[0.1, 0.2], [0.4, 0.5], [0.7, 0.9]]).mean()
    found = whole.keep("layer", ["l2", "l0"])
    assert found.coords["layer"] == ["l2", "l0"] and found.values.tolist() == whole.values[[2, 0]].tolist()
    assert found.low is not None and whole.low is not None and found.low.tolist() == whole.low[[2, 0]].tolist()
    with pytest.raises(ValueError, match="no layer 'l9'; there is: l0, l1, l2"):
        whole.keep("layer", ["l0", "l9"])


def test_selecting_what_is_not_there_says_what_is() -> None:
    with pytest.raises(ValueError, match="no layer 'l9'; there is: l0, l1"):
        shares([[1.0], [1.0]]).select(layer="l9")
    with pytest.raises(ValueError, match="no dim 'head'; it has: layer, example"):
        shares([[1.0]]).select(head=0)


def test_exports_hold_every_value_with_its_labels(tmp_path: Path) -> None:
    found = shares([[0.1, 0.2], [np.nan, np.nan]]).mean()
    found.save(tmp_path, "share")
    table = pd.read_parquet(tmp_path / "share.parquet")
    assert table.columns.tolist() == ["layer", "value", "low", "high", "n"]
    assert table["layer"].tolist() == ["l0", "l1"] and table["value"][0] == found.values[0]
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "share.csv"), table, check_dtype=False)
    record = json.loads((tmp_path / "share.json").read_text())
    assert record["rows"][1] == {"layer": "l1", "value": None, "low": None, "high": None, "n": 0}
    assert record["units"] == "share" and record["settings"] == {"model": "m"}


@pytest.mark.parametrize("size", [0, 200, 1000, 3000])
def test_a_full_disk_leaves_no_file_that_is_not_whole(size: int, tmp_path: Path) -> None:
    found = shares([[0.1, 0.2]] * 100).mean()
    found.save(tmp_path, "whole")
    with files_of_at_most(size), pytest.raises(OSError, match=r"share\.(parquet|csv|json)"):
        found.save(tmp_path, "share")
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (tmp_path / path.name.replace("share", "whole")).read_bytes(), path


def test_a_single_number_exports_as_one_row() -> None:
    assert shares([[0.5, 0.5]]).mean().select(layer="l0").frame()["value"].tolist() == [0.5]
