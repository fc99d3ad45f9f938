"""Intervals cover what they say, agree with SciPy's, and do not claim certainty; differences are paired."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from workbench.measurement import Measurement
from workbench.measurement.compare_runs import (
    COLUMNS,
    OVER_SEEDS,
    compare,
    compare_over_seeds,
    difference,
    difference_by_group,
    over_seeds,
    paired,
)
from workbench.measurement.intervals import (
    apart,
    bootstrap,
    bounded,
    graded,
    redrawn,
    student,
    welch,
)
from workbench.measurement.measurement import interval
from workbench.measurement.p_values import holm, relabelled, sign_flip


def measured(values: np.ndarray, units: str = "share", model: str = "m") -> Measurement:
    coords = {"layer": [f"l{i}" for i in range(len(values))], "example": range(values.shape[1])}
    return Measurement("Thing", values, ("layer", "example"), coords, units, {"model": model})


@pytest.mark.parametrize("n", [12, 60, 400])
@pytest.mark.parametrize("kind", ["normal", "exponential"])
def test_the_bootstrap_is_that_of_a_plain_loop(n: int, kind: str) -> None:
    draws = np.random.default_rng(n)
    x = {"normal": draws.normal(size=n), "exponential": draws.exponential(size=n)}[kind]
    t = []
    for _ in range(20_000):
        again = draws.choice(x, n)
        t.append((again.mean() - x.mean()) / (again.std(ddof=1) / np.sqrt(n)))
    below, above = np.quantile(t, [0.025, 0.975]) * x.std(ddof=1) / np.sqrt(n)
    low, high = bootstrap(x)
    assert low == pytest.approx(x.mean() - above, abs=0.07 * (above - below))
    assert high == pytest.approx(x.mean() - below, abs=0.07 * (above - below))


@pytest.mark.parametrize(("right", "n"), [(0, 5), (3, 8), (45, 50), (64, 64), (200, 256)])
def test_of_yes_or_no_the_interval_is_jeffreys(right: int, n: int) -> None:
    low, high = graded(np.arange(n) < right)
    theirs = stats.beta.ppf([0.025, 0.975], right + 0.5, n - right + 0.5)
    near = 0.03 * (theirs[1] - theirs[0])
    assert float(low) == (0 if right == 0 else pytest.approx(theirs[0], abs=near))
    assert float(high) == (1 if right == n else pytest.approx(theirs[1], abs=near))


def test_of_other_shares_it_weighs_them_anew_with_half_a_value_at_each_bound() -> None:
    draws = np.random.default_rng(0)
    values = np.array([0.1, 0.5, 0.5, 0.9, 0.95, 1.0])
    means = draws.dirichlet([1] * 6 + [0.5, 0.5], 50_000) @ np.array([*values, 0, 1])
    low, high = np.quantile(means, [0.025, 0.975])
    assert bounded(values, 0, 1) == (pytest.approx(low, abs=0.02), pytest.approx(high, abs=0.02))


def test_shares_that_vary_freely_have_the_interval_of_a_mean() -> None:
    values = np.random.default_rng(0).beta(5, 2, size=(4, 60))
    free, found = np.array(bootstrap(values)), np.array(graded(values))
    assert np.abs(free - found).max() < 0.1 * (free[1] - free[0]).min()
    close = np.random.default_rng(1).normal(0.5, 0.02, size=(4, 256))
    assert (np.ptp(graded(close), axis=0) < 0.7 * np.ptp(bounded(close, 0, 1), axis=0)).all()


def test_shares_that_agree_to_within_rounding_have_the_interval_of_outcomes() -> None:
    values = 0.5 + 1e-7 * np.random.default_rng(0).random((4, 60))
    assert np.abs(np.array(graded(values)) - bounded(values, 0, 1)).max() < 1e-4


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    draws = np.random.default_rng(0)
    samples = {
        "exponential": (bootstrap, draws.exponential(size=(1500, 60)), 1.0),
        "shares": (graded, (draws.random((1500, 60)) < 0.7).astype(float), 0.7),
        "five seeds": (student, draws.normal(size=(1500, 5)), 0.0),
    }
    for name, (of, values, truth) in samples.items():
        low, high = of(values)
        assert 0.92 < np.mean((low <= truth) & (truth <= high)) < 0.98, name


def test_nan_is_left_out_of_a_bootstrap() -> None:
    values = np.random.default_rng(0).normal(size=40)
    with_gaps = np.full(80, np.nan)
    with_gaps[::2] = values
    (low, high), (gap_low, gap_high) = bootstrap(values), bootstrap(with_gaps)
    assert gap_low == pytest.approx(low, abs=0.1) and gap_high == pytest.approx(high, abs=0.1)
    assert np.isnan(bootstrap(np.array([[1.0, np.nan], [np.nan, np.nan]]))).all()


def test_of_equal_values_the_interval_is_unknown_but_as_shares_they_have_one_with_a_width() -> None:
    assert np.isnan(bootstrap(np.full(9, 0.3))).all() and np.isnan(student(np.full(4, 0.1 + 0.2))).all()
    low, high = graded(np.array([np.ones(50), np.zeros(50), np.full(50, 0.3)]))
    assert low[0] == pytest.approx(stats.beta.ppf(0.025, 50.5, 0.5), abs=2e-3) and high[0] == 1
    assert low[1] == 0 and high[1] == pytest.approx(1 - low[0], abs=1e-5)
    assert 0.27 < low[2] < 0.3 < high[2] < 0.36


@pytest.mark.parametrize("units", ["share", "difference in share"])
def test_an_interval_of_shares_is_continuous_where_one_value_is_a_hair_below_one(units: str) -> None:
    base = np.ones((1, 256)) if units == "share" else np.zeros((1, 256))
    before = interval(base, units)
    for hair in (1e-9, 1e-6, 1e-3):
        moved = base.copy()
        moved[0, 7] -= hair
        assert np.abs(np.array(interval(moved, units)) - before).max() <= hair


def test_paired_yes_or_no_outcomes_are_covered_and_their_interval_has_a_width() -> None:
    draws = np.random.default_rng(0)
    for n, truth in ((64, -0.01), (8, -0.1), (256, -0.05)):
        differences = -(draws.random((1500, n)) < -truth).astype(float)
        low, high = interval(differences, "difference in share")
        assert np.mean((low <= truth) & (truth <= high)) > 0.93, (n, truth)
        assert (high - low).min() > 1 / n and low.min() >= -1 and high.max() <= 1
    low, high = interval(np.full((1, 64), -1.0), "difference in share")
    assert low[0] == -1 < -0.95 < high[0] < -0.85


def test_few_examples_are_covered_too() -> None:
    draws = np.random.default_rng(0)
    for n in (2, 3, 5, 10):
        low, high = interval(draws.normal(5, 1, size=(3000, n)), "nats")
        assert 0.93 < np.mean((low <= 5) & (high >= 5)) < 0.97, n


def test_seeds_that_solve_it_or_not_are_covered_and_two_that_do_are_not_certain() -> None:
    draws = np.random.default_rng(0)
    for k in (2, 3, 4, 5):
        solve = (draws.random((3000, k)) < 0.7).astype(float)
        low, high = interval(solve, "share", seeds=True)
        assert np.mean((low <= 0.7) & (high >= 0.7)) > 0.9, k
    both = over_seeds([measured(np.ones((1, 64)), model=str(seed)).mean() for seed in (0, 1)], [0, 1])
    assert both.low is not None and both.low[0] < 0.5 and both.high is not None and both.high[0] == 1


def test_draws_of_one_model_are_as_wide_as_students_and_as_all_their_sequences() -> None:
    each, n = np.array([[0.8, 0.9, 0.85], [1.0, 1.0, 1.0]]), np.full((2, 3), 20)
    low, high = redrawn(each, n)
    assert (low[0], high[0]) == (pytest.approx(student(each[0])[0]), pytest.approx(student(each[0])[1]))
    assert low[1] == pytest.approx(stats.beta.ppf(0.025, 60.5, 0.5)) and high[1] == 1


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


def test_a_small_p_is_as_small_as_it_is() -> None:
    draws = np.random.default_rng(1)
    for better, worse in ((20, 0), (30, 2), (64, 5), (256, 60)):
        outcomes = np.r_[np.ones(better), -np.ones(worse), np.zeros(30)]
        exact = stats.binomtest(worse, better + worse).pvalue
        assert exact / 2 < sign_flip(outcomes) < 2 * exact
    values = draws.exponential(size=(5, 18)) * draws.choice([1, 1, 1, 1, -1], (5, 18))
    values[4] = np.abs(values[4])
    signs = 1.0 - 2.0 * (np.arange(1 << 18) >> np.arange(18)[:, None] & 1)
    for row, p in zip(values, sign_flip(values), strict=True):
        assert p == pytest.approx(np.mean(np.abs(row @ signs) >= abs(row.sum()) - 1e-9), rel=0.5)
    assert sign_flip(np.full(40, 0.1)) == pytest.approx(2.0**-39, rel=1)


def test_many_comparisons_may_be_significant_and_a_long_measure_does_not_hide_another() -> None:
    draws = np.random.default_rng(0)
    none, some = draws.normal(size=(600, 128)), draws.normal(0.8, 1, size=(600, 128))
    zero, right = np.zeros((600, 128)), (draws.random((1, 128)) < 0.5).astype(float)
    table = compare(
        {"long": measured(zero, "nats"), "sure": measured(zero, "nats"), "short": measured(np.zeros((1, 128)))},
        {"long": measured(none, "nats"), "sure": measured(some, "nats"), "short": measured(right)},
    )
    holm_of = table.set_index("measure")["p_holm"]
    assert holm_of["sure"].max() < 0.01 and holm_of["long"].min() > 0.01
    assert holm_of["short"] == pytest.approx(float(table.set_index("measure")["p"]["short"]))


def test_sharing_out_seeds_anew_agrees_with_scipy_and_alarms_as_often_as_it_says() -> None:
    first, second = np.array([0.1, 0.4, 0.35]), np.array([0.5, 0.9, 0.8, 0.3])
    theirs = stats.permutation_test((first, second), lambda a, b, axis: b.mean(axis) - a.mean(axis), vectorized=True)
    assert relabelled(first, second) == pytest.approx(theirs.pvalue)
    assert relabelled(np.array([0.1, 0.2, 0.3]), np.array([0.4, 0.5, 0.6])) == pytest.approx(0.1)
    draws = np.random.default_rng(0)
    nothing = relabelled(draws.normal(size=(2000, 5)), draws.normal(size=(2000, 5)))
    assert 0.03 < np.mean(nothing < 0.05) < 0.06
    assert np.isnan(relabelled(np.array([[0.1, np.nan]]), np.array([[1.0, 2.0]]))).all()
    assert relabelled(draws.normal(size=10), draws.normal(3, 1, size=12)) < 0.001


def test_welch_agrees_with_scipy() -> None:
    draws = np.random.default_rng(0)
    first, second = draws.normal(size=4), draws.normal(1, 3, size=6)
    theirs = stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    assert [float(end) for end in welch(first, second)] == pytest.approx([theirs.low, theirs.high])


def test_two_seeds_of_one_method_differ_surely_in_pairs_and_over_seeds_they_do_not() -> None:
    """Models that differ in their seed alone: each has its own mean entropy, which its examples tell exactly."""
    draws = np.random.default_rng(0)

    def seed() -> Measurement:
        return measured(draws.normal(0, 1, size=(4, 1)) + draws.normal(0, 0.3, size=(4, 64)), "nats")

    pairs = [compare({"thing": seed()}, {"thing": seed()}) for _ in range(10)]
    assert all((table["p_holm"] < 0.05).any() for table in pairs)
    alarms = []
    for _ in range(150):
        groups = [over_seeds([seed().mean() for _ in range(5)], range(5)) for _ in range(2)]
        table = compare_over_seeds({"thing": groups[0]}, {"thing": groups[1]})
        alarms.append(((table["p"] < 0.05).mean(), ((table["low"] > 0) | (table["high"] < 0)).mean()))
    assert tuple(table.columns) == OVER_SEEDS and table["n_first"].tolist() == [5] * 4
    assert (np.mean(alarms, axis=0) < 0.08).all()


def test_a_comparison_over_seeds_finds_what_the_method_does() -> None:
    draws = np.random.default_rng(0)
    groups = [
        over_seeds(
            [measured(draws.normal(at, 0.3, (2, 1)) + np.zeros((2, 8)), "nats").mean() for _ in range(5)], range(5)
        )
        for at in (0, 2)
    ]
    table = compare_over_seeds({"t": groups[0], "alone": measured(np.zeros((1, 9))).mean()}, {"t": groups[1]})
    assert table["p"].tolist() == pytest.approx([2 / 252] * 2) and (table["low"] > 0).all()
    assert table["difference"].tolist() == pytest.approx((groups[1].values - groups[0].values).tolist())


def test_holm_is_as_published_and_leaves_nan_out() -> None:
    found = holm(np.array([0.01, 0.04, 0.03, np.nan, 0.005]))
    assert found[[0, 1, 2, 4]] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert np.isnan(found[3])


def test_over_seeds_is_the_mean_of_means_with_students_interval_and_each_seeds_value() -> None:
    runs = [measured(np.full((2, 10), value), "nats").mean() for value in (0.5, 0.6, 0.7)]
    found = over_seeds(runs, [0, 1, 2])
    assert found.low is not None and found.high is not None and found.n is not None
    assert found.each is not None and np.allclose(found.each, [[0.5, 0.6, 0.7]] * 2)
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
    low, high = apart(graded(right), graded(right), (right.mean(-1), right.mean(-1)))
    assert high[0] == -low[0] == pytest.approx(1 - stats.beta.ppf(0.025, 50.5, 0.5), abs=2e-3)


def test_a_difference_over_the_same_examples_is_the_paired_one() -> None:
    draws = np.random.default_rng(0)
    hard = draws.random((2, 100))
    first, second = measured(hard, "nats", "a"), measured(hard + 0.02 + 0.01 * draws.normal(size=(2, 100)), "nats", "b")
    same, other = difference(first, second, same_examples=True), difference(first, second, same_examples=False)
    assert np.array_equal(same.values, paired(first, second).mean().values)
    assert same.values == pytest.approx(other.values) and same.units == other.units == "difference in nats"
    assert same.low is not None and other.low is not None and same.low.min() > 0 > other.low.max()
    assert same.settings["model"] == other.settings["model"] == "b minus a"
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
