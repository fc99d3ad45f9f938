"""A measurement's statistics, selections and exports."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from workbench.instruments import Measurement


def shares(values: list[list[float]], units: str = "share") -> Measurement:
    array = np.array(values, dtype=float)
    coords = {"layer": [f"l{i}" for i in range(len(array))], "example": range(array.shape[1])}
    return Measurement("Share", array, ("layer", "example"), coords, units, {"model": "m"})


def test_mean_leaves_nan_out_and_counts_the_rest() -> None:
    found = shares([[0.25, 0.75, np.nan], [np.nan, np.nan, np.nan]]).mean()
    assert found.dims == ("layer",) and found.n is not None and found.n.tolist() == [2, 0]
    assert found.values[0] == 0.5 and np.isnan(found.values[1])


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
    assert found.high[0] == pytest.approx(1) and found.low[0] == pytest.approx(50 / (50 + 1.96**2), abs=1e-4)
    assert found.low[1] == 0 and found.high[1] == pytest.approx(1 - found.low[0])


def test_values_of_zero_in_other_units_have_no_width() -> None:
    found = shares([[0.0] * 5], units="nats").mean()
    assert found.low is not None and found.high is not None
    assert found.low[0] == found.high[0] == 0


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


def test_a_single_number_exports_as_one_row() -> None:
    assert shares([[0.5, 0.5]]).mean().select(layer="l0").frame()["value"].tolist() == [0.5]
