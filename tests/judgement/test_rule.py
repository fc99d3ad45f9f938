"""The one rule: more null answers make it surer, models that differ make it careful, few are said to be few."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from workbench.judgement.against_controls import ALPHA, Against, Tally, compare_counts


def against(own: Tally, *nulls: tuple[float, int], places: int = 1, models: bool = True) -> Against:
    return compare_counts(own, [Tally(*null) for null in nulls], "re-initialised", places=places, models=models).result


def test_without_an_answer_of_a_null_model_nothing_is_compared() -> None:
    assert against(Tally(60, 64)) is Against.TOO_FEW
    assert against(Tally(60, 64), (0, 0), (0, 0)) is Against.TOO_FEW


def test_few_answers_of_null_models_are_too_few_and_never_no_more() -> None:
    assert against(Tally(54, 64), (1, 3), (1, 2)) is Against.TOO_FEW
    assert against(Tally(54, 64), (3, 3)) is Against.TOO_FEW
    assert against(Tally(2, 4), (0, 64), (0, 64), (0, 64)) is Against.TOO_FEW  # the result's own are few


def test_with_more_answers_of_the_same_rate_p_falls() -> None:
    p = [
        compare_counts(Tally(54, 64), [Tally(n // 3, n)] * models, "").p
        for models, n in ((2, 6), (4, 6), (8, 6), (8, 12), (8, 60))
    ]
    assert p == sorted(p, reverse=True)
    assert p[0] > ALPHA > p[-1]


def test_null_models_that_differ_are_harder_to_exceed_than_models_that_agree() -> None:
    agree = compare_counts(Tally(160, 256), [Tally(64, 256)] * 5, "").p
    differ = compare_counts(Tally(160, 256), [Tally(hits, 256) for hits in (4, 30, 64, 98, 124)], "").p
    assert agree < ALPHA / 10 < differ


def test_more_places_ask_for_more() -> None:
    nulls = [(hits, 64) for hits in (5, 9, 14, 20, 26)]
    assert against(Tally(44, 64), *nulls) is Against.BEYOND
    assert against(Tally(44, 64), *nulls, places=7) is Against.NOT_CLEAR  # none of them reaches it


def test_no_more_is_said_only_where_a_null_reaches_as_high() -> None:
    assert against(Tally(15, 64), *[(0, 256)] * 8, places=7) is Against.NOT_CLEAR
    assert against(Tally(30, 64), (4, 64), (6, 64), (40, 64), (2, 64)) is Against.NO_MORE
    assert against(Tally(35, 64), (29, 64), models=False) is Against.NOT_CLEAR


def test_what_null_models_do_as_often_is_no_more() -> None:
    assert against(Tally(30, 64), *[(30, 64)] * 5) is Against.NO_MORE


@pytest.mark.parametrize(("hits", "n", "seen", "of"), [(20, 64, 9, 64), (50, 80, 30, 70), (0, 30, 0, 30)])
def test_a_control_that_is_no_model_predicts_as_a_beta_binomial(hits: int, n: int, seen: int, of: int) -> None:
    p = compare_counts(Tally(hits, n), [Tally(seen, of)], "shuffled labels", models=False).p
    assert p == pytest.approx(stats.betabinom.sf(hits - 1, n, seen + 0.5, of - seen + 0.5))
    with pytest.raises(ValueError, match="one count, not 2"):
        compare_counts(Tally(hits, n), [Tally(seen, of)] * 2, "shuffled labels", models=False)


def test_the_prediction_averages_beta_binomials_over_the_grid_by_their_likelihood() -> None:
    """With counts so many that both are known, it is the beta-binomial of that mean and correlation."""
    rng = np.random.default_rng(0)
    rates = rng.beta(2, 5, 300)
    p = compare_counts(Tally(40, 64), [Tally(float(k), 200) for k in rng.binomial(200, rates)], "").p
    assert p == pytest.approx(stats.betabinom.sf(39, 64, 2, 5), rel=0.25)


def test_counts_are_told_pooled_and_by_the_highest_model() -> None:
    compared = compare_counts(Tally(60, 64), [Tally(2, 8), Tally(0, 0), Tally(9, 12)], "re-initialised")
    assert (compared.hits, compared.n, compared.models, compared.most) == (11, 20, 3, 0.75)
    assert compared.model_validate_json(compared.model_dump_json()) == compared
