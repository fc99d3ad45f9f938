"""Intervals cover what they say, agree with SciPy's, and do not claim certainty; differences are paired."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from workbench.instruments import Measurement
from workbench.instruments.comparison import COLUMNS, compare, difference, difference_by_group, over_seeds, paired
from workbench.instruments.statistics import apart, bootstrap, holm, share_interval, sign_flip, student, wilson


def measured(values: np.ndarray, units: str = "share", model: str = "m") -> Measurement:
    coords = {"layer": [f"l{i}" for i in range(len(values))], "example": range(values.shape[1])}
    return Measurement("Thing", values, ("layer", "example"), coords, units, {"model": model})


@pytest.mark.parametrize("n", [12, 60, 400])
@pytest.mark.parametrize("kind", ["normal", "exponential", "yes or no"])
def test_the_bootstrap_agrees_with_scipys_bca(n: int, kind: str) -> None:
    draws = np.random.default_rng(n)
    x = {"normal": draws.normal(size=n), "exponential": draws.exponential(size=n), "yes or no": draws.random(n) < 0.3}
    values = x[kind].astype(float)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, random_state=np.random.default_rng(1))
    low, high = bootstrap(values)
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    near = 0.07 * width + (kind == "yes or no") / n  # means of these come in steps
    assert low == pytest.approx(theirs.confidence_interval.low, abs=near)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=near)


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    draws = np.random.default_rng(0)
    samples = {
        "exponential": (bootstrap, draws.exponential(size=(1500, 60)), 1.0),
        "shares": (share_interval, (draws.random((1500, 60)) < 0.7).astype(float), 0.7),
        "five seeds": (student, draws.normal(size=(1500, 5)), 0.0),
    }
    for name, (interval, values, truth) in samples.items():
        low, high = interval(values)
        assert 0.92 < np.mean((low <= truth) & (truth <= high)) < 0.98, name


def test_nan_is_left_out_of_a_bootstrap() -> None:
    values = np.random.default_rng(0).normal(size=40)
    with_gaps = np.full(80, np.nan)
    with_gaps[::2] = values
    (low, high), (gap_low, gap_high) = bootstrap(values), bootstrap(with_gaps)
    assert gap_low == pytest.approx(low, abs=0.1) and gap_high == pytest.approx(high, abs=0.1)
    assert np.isnan(bootstrap(np.array([[1.0, np.nan], [np.nan, np.nan]]))).all()


def test_equal_values_have_no_width_but_as_shares_at_the_ends_do() -> None:
    assert [float(end) for end in bootstrap(np.full(9, 0.3))] == pytest.approx([0.3, 0.3])
    low, high = share_interval(np.array([np.ones(50), np.zeros(50)]))
    assert low[0] == pytest.approx(50 / (50 + 1.96**2), abs=1e-4) and high[0] == pytest.approx(1)
    assert low[1] == 0 and high[1] == pytest.approx(1 - low[0])


def test_wilson_agrees_with_scipy() -> None:
    theirs = stats.binomtest(45, 50).proportion_ci(method="wilson")
    assert [float(end) for end in wilson(np.array(0.9), np.array(50))] == pytest.approx([theirs.low, theirs.high])


def test_the_same_values_have_the_same_interval() -> None:
    values = np.random.default_rng(3).random((4, 30))
    assert np.array_equal(bootstrap(values), bootstrap(values.copy()))


def test_sign_flips_find_a_difference_and_only_a_difference() -> None:
    draws = np.random.default_rng(0)
    nothing = sign_flip(draws.normal(size=(400, 30)))
    assert 0.02 < np.mean(nothing < 0.05) < 0.09
    assert sign_flip(draws.normal(1.0, 1.0, size=30)) < 0.001
    assert sign_flip(np.zeros(30)) == 1
    exact = stats.permutation_test((np.array([1.0, 2, 3, -1, 2, 4]),), np.mean, permutation_type="samples")
    assert sign_flip(np.array([1.0, 2, 3, -1, 2, 4])) == pytest.approx(exact.pvalue, abs=0.02)


def test_holm_is_as_published_and_leaves_nan_out() -> None:
    found = holm(np.array([0.01, 0.04, 0.03, np.nan, 0.005]))
    assert found[[0, 1, 2, 4]] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert np.isnan(found[3])


def test_over_seeds_is_the_mean_of_means_with_students_interval() -> None:
    runs = [measured(np.full((2, 10), value)).mean() for value in (0.5, 0.6, 0.7)]
    found = over_seeds(runs, [0, 1, 2])
    assert found.low is not None and found.high is not None and found.n is not None
    assert found.values == pytest.approx([0.6, 0.6]) and found.n.tolist() == [3, 3]
    half = stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3)
    assert found.low == pytest.approx([0.6 - half] * 2) and found.high == pytest.approx([0.6 + half] * 2)


def test_a_pair_tells_apart_what_two_intervals_do_not() -> None:
    draws = np.random.default_rng(0)
    hard = draws.random((1, 100))
    first, second = measured(hard, "nats", "a"), measured(hard + 0.02 + 0.01 * draws.normal(size=(1, 100)), "nats", "b")
    one, other, apart = first.mean(), second.mean(), paired(first, second).mean()
    assert one.high is not None and other.low is not None and apart.low is not None
    assert one.high[0] > other.low[0] and apart.low[0] > 0


def test_a_comparison_has_a_row_for_each_value_and_counts_them_all() -> None:
    draws = np.random.default_rng(0)
    base = draws.normal(size=(10, 50))
    same = {"thing": measured(base, "nats", "a"), "only here": measured(base)}
    shifted = base + draws.normal(0, 0.1, size=base.shape)
    shifted[0] += 1
    table = compare(same, {"thing": measured(shifted, "nats", "b")})
    assert tuple(table.columns) == COLUMNS and len(table) == 10
    assert table["p_holm"][0] < 0.05 < table["p_holm"][1:].min()
    assert (table["p_holm"] >= table["p"]).all()
    assert np.allclose(table["difference"], table["second"] - table["first"])


def test_a_comparison_is_over_what_both_have() -> None:
    values = np.array([[1.0, 2.0, np.nan, 4.0]])
    table = compare({"t": measured(values, "nats")}, {"t": measured(np.array([[np.nan, 3.0, 5.0, 4.5]]), "nats")})
    assert table["n"][0] == 2 and table["first"][0] == 3 and table["difference"][0] == pytest.approx(0.75)


def test_what_differs_in_shape_is_not_paired() -> None:
    with pytest.raises(ValueError, match="cannot be held against each other"):
        paired(measured(np.zeros((2, 3))), measured(np.zeros((3, 3))))


def test_the_interval_of_a_difference_of_independent_means_agrees_with_scipys_bootstrap() -> None:
    draws = np.random.default_rng(2)
    first, second = draws.exponential(size=80), 2 * draws.exponential(size=50) + 0.3

    def less(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        return b.mean(axis) - a.mean(axis)

    theirs = stats.bootstrap((first, second), less, n_resamples=20_000, random_state=np.random.default_rng(1))
    low, high = apart(bootstrap(first), bootstrap(second), (first.mean(), second.mean()))
    width = theirs.confidence_interval.high - theirs.confidence_interval.low
    assert low == pytest.approx(theirs.confidence_interval.low, abs=0.08 * width)
    assert high == pytest.approx(theirs.confidence_interval.high, abs=0.08 * width)


def test_intervals_of_differences_cover_the_truth_as_often_as_they_say() -> None:
    draws = np.random.default_rng(0)
    first, second = draws.exponential(size=(1500, 60)), draws.normal(3, 2, size=(1500, 40))
    low, high = apart(bootstrap(first), bootstrap(second), (first.mean(-1), second.mean(-1)))
    assert 0.92 < np.mean((low <= 2) & (high >= 2)) < 0.98


def test_a_difference_of_shares_keeps_its_width_where_all_are_right() -> None:
    right = np.ones((1, 50))
    low, high = apart(share_interval(right), share_interval(right), (right.mean(-1), right.mean(-1)))
    assert high[0] == -low[0] == pytest.approx(1.96**2 / (50 + 1.96**2), abs=1e-4)  # Newcombe's


def test_a_difference_over_the_same_examples_is_the_paired_one() -> None:
    draws = np.random.default_rng(0)
    hard = draws.random((2, 100))
    first, second = measured(hard, "nats", "a"), measured(hard + 0.02 + 0.01 * draws.normal(size=(2, 100)), "nats", "b")
    same, other = difference(first, second, same_examples=True), difference(first, second, same_examples=False)
    assert np.array_equal(same.values, paired(first, second).mean().values)
    assert same.values == pytest.approx(other.values) and same.units == other.units == "difference in nats"
    assert same.low is not None and other.low is not None and same.low.min() > 0 > other.low.max()
    assert same.settings["model"] == other.settings["model"] == "b less a"
    assert (same.settings["paired"], other.settings["paired"]) == (True, False)


def test_a_difference_is_where_both_were_measured_and_its_n_is_the_smaller() -> None:
    draws = np.random.default_rng(0)
    first, second = measured(draws.random((3, 30)), "nats"), measured(draws.random((5, 20)), "nats")
    second = Measurement(**{**vars(second), "coords": {**second.coords, "layer": ["l9", "l2", "l0", "l7", "l8"]}})
    found = difference(first, second, same_examples=False)
    assert found.coords["layer"] == ["l0", "l2"] and found.n is not None and found.n.tolist() == [20, 20]
    at_l0, at_l2 = second.values[2].mean() - first.values[0].mean(), second.values[1].mean() - first.values[2].mean()
    assert found.values == pytest.approx([at_l0, at_l2])
    with pytest.raises(ValueError, match="number of examples"):
        difference(first, second, same_examples=True)
    with pytest.raises(ValueError, match="dims or units"):
        difference(first, measured(draws.random((3, 30)), "share"), same_examples=False)
    with pytest.raises(ValueError, match="no layer in common"):
        apart_layers = Measurement(**{**vars(first), "coords": {**first.coords, "layer": ["x", "y", "z"]}})
        difference(first, apart_layers, same_examples=False)


def test_one_example_of_each_has_a_difference_and_no_interval() -> None:
    found = difference(measured(np.array([[1.0]]), "nats"), measured(np.array([[3.0]]), "nats"), same_examples=False)
    assert found.values.tolist() == [2.0] and found.low is not None and np.isnan(found.low).all()


def test_a_difference_by_group_is_the_difference_within_each_group_of_both() -> None:
    draws = np.random.default_rng(1)
    first, second = measured(draws.random((1, 40)), "share", "a"), measured(draws.random((1, 40)), "share", "b")
    lengths = [2] * 20 + [5] * 20
    found = difference_by_group((first, lengths), (second, lengths), "length", same_examples=True)
    assert found.dims == ("length", "layer") and found.coords["length"] == [2, 5]
    expected = difference(first.pick(range(20, 40)), second.pick(range(20, 40)), same_examples=True)
    assert found.values[1] == expected.values and found.low is not None and found.low[1] == expected.low
    other = difference_by_group((first, lengths), (second, [5] * 10 + [9] * 30), "length", same_examples=False)
    assert other.coords["length"] == [5] and other.n is not None and other.n.tolist() == [[10]]
    with pytest.raises(ValueError, match="no length in common"):
        difference_by_group((first, lengths), (second, [7] * 40), "length", same_examples=False)
