"""What an interval of faithfulness says of a circuit, and how often it says what is not so."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.judgement.faithful import (
    ENOUGH,
    FEWEST,
    LEAST,
    Agreement,
    CircuitJudgement,
    Faithful,
    Faithfulness,
    first_faithful,
    judge_faithful,
)
from workbench.judgement.words import circuits as words
from workbench.measurement import Measurement


def mean(kept: float, low: float, high: float, n: int) -> Measurement:
    ends = {"low": np.array(low), "high": np.array(high), "n": np.array(n)}
    return Measurement("Faithfulness", np.array(kept), (), {}, "share of the metric", **ends)


def judged(kept: float, low: float, high: float, n: int = 32, known: int | None = None) -> Faithfulness:
    return judge_faithful(12, mean(kept, low, high, n), n if known is None else known, answers=n)


@pytest.mark.parametrize(
    ("interval", "result", "said"),
    [
        ((1.0, 0.95, 1.05), Faithful.FAITHFUL, "faithful by the logit difference, within 90 to 110%"),
        ((0.5, 0.4, 0.6), Faithful.NOT, "not faithful, less than 90%"),
        ((2.0, 1.9, 2.1), Faithful.OVERSHOOTS, "what it leaves out works against the answer"),
        ((0.947, 0.706, 1.34), Faithful.NOT_SETTLED, "not settled, the interval reaches beyond 90 to 110% on both"),
        ((0.95, 0.85, 1.05), Faithful.NOT_SETTLED, "not settled, the interval reaches below 90%"),
        ((1.05, 0.95, 1.15), Faithful.NOT_SETTLED, "not settled, the interval reaches above 110%"),
        ((1.0, np.nan, np.nan), Faithful.FAITHFUL, "keeps 100% of the logit difference and 32 of 32 answers"),
        ((0.0, np.nan, np.nan), Faithful.NOT, "keeps 0% of"),
    ],
)
def test_the_whole_interval_decides_on_both_sides(
    interval: tuple[float, float, float], result: Faithful, said: str
) -> None:
    one = judged(*interval)
    assert one.result is result
    assert said in words.of_circuit(one, "logit difference", 110)


def test_few_pairs_never_show_a_faithful_circuit_and_very_few_show_nothing() -> None:
    assert judged(0.996, 0.99, 1.002, n=3).result is Faithful.TOO_FEW
    assert judged(0.2, 0.1, 0.3, n=FEWEST - 1).result is Faithful.TOO_FEW
    assert judged(0.2, 0.1, 0.3, n=FEWEST).result is Faithful.NOT
    assert judged(1, 0.99, 1.01, n=ENOUGH - 1).result is Faithful.TOO_FEW
    assert judged(1, 0.99, 1.01, n=ENOUGH).result is Faithful.FAITHFUL
    assert LEAST**ENOUGH <= 0.05 < LEAST ** (ENOUGH - 1), "so many pairs see one of every ten that are lost"
    assert "too few pairs to call it faithful (5 are the fewest, and 29 are needed)" in words.of_circuit(
        judged(0.996, 0.99, 1.002, n=3), "logit difference", 110
    )


def test_a_model_that_is_wrong_more_often_than_not_has_nothing_that_a_circuit_could_be_faithful_to() -> None:
    assert judged(1, 0.99, 1.01, known=16).result is Faithful.NO_ANSWERS
    assert judged(1, 0.99, 1.01, known=26).result is Faithful.FAITHFUL
    assert judged(1, 0.99, 1.01, n=8, known=5).result is Faithful.TOO_FEW  # the model may have the answers or not
    assert judged(1, 0.99, 1.01, n=8, known=1).result is Faithful.NO_ANSWERS
    said = words.of_circuit(judged(1, 0.99, 1.01, known=6), "logit difference", 110)
    assert "nothing to be faithful to, since the whole model has both answers right in 6 of 32 pairs" in said


def test_circuits_are_faithful_from_a_size_on_only_if_all_larger_ones_are() -> None:
    good, bad = judged(1, 0.95, 1.05), judged(2, 1.9, 2.1)
    assert first_faithful([bad, good, good]) == 1 and first_faithful([good, bad, good]) == 2
    assert first_faithful([good, good]) == 0 and first_faithful([good, bad]) is None


def draws(kind: str, n: int, generator: np.random.Generator) -> np.ndarray:
    """What each pair keeps, by a circuit whose faithfulness is just not within the bounds, or 1; 400 samples."""
    noise = 0.15 * generator.standard_normal((400, n))
    lost = generator.random((400, n))
    return {
        "less of every pair": 0.89 + noise,
        "more of every pair": 1.11 + noise,
        "a ninth of the pairs lost": np.where(lost < 0.11, 0.0, 1.0) + 0.1 * noise,
        "every fifth pair twice": np.where(lost < 0.11, 2.0, 1.0) + 0.1 * noise,
        "faithful": 1 + noise,
    }[kind]


@pytest.mark.parametrize("n", [ENOUGH, 64])
def test_a_circuit_that_is_not_faithful_is_called_so_in_at_most_one_case_of_twenty(n: int) -> None:
    generator = np.random.default_rng(0)
    called = {}
    for kind in ("less of every pair", "more of every pair", "a ninth of the pairs lost", "every fifth pair twice"):
        kept = Measurement(
            "f", draws(kind, n, generator), ("draw", "example"), {"draw": range(400), "example": range(n)}, "share of x"
        ).mean()
        each = [judge_faithful(3, kept.select(draw=draw), n).result for draw in range(400)]
        called[kind] = each.count(Faithful.FAITHFUL) / 400
    assert max(called.values()) <= 0.05, called


def test_one_that_is_faithful_is_called_so_mostly() -> None:
    kept = draws("faithful", 32, np.random.default_rng(1))
    coords = {"draw": range(400), "example": range(32)}
    measured = Measurement("f", kept, ("draw", "example"), coords, "share of x").mean()
    each = [judge_faithful(3, measured.select(draw=draw), 32).result for draw in range(400)]
    assert each.count(Faithful.FAITHFUL) / 400 > 0.8


def test_a_judgement_loads_as_it_was_saved() -> None:
    judgement = CircuitJudgement(
        metric="logit difference",
        n_edges=110,
        drawn=judged(0.947, 0.706, 1.34),
        left=(0.01, 0.0, 0.02),
        shares=(0.5, 1.0),
        sizes=(judged(2, 1.9, 2.1), judged(1, np.nan, np.nan)),
        halves=Agreement(overlap=0.8, low=0.7, high=0.9, chance=0.5, splits=200, draws=100),
    )
    again = CircuitJudgement.model_validate_json(judgement.model_dump_json())
    assert again.model_dump_json() == judgement.model_dump_json() and again.drawn == judgement.drawn
    assert again.smallest == 1.0 and np.isnan(again.sizes[1].low)
