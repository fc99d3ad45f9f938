"""What the table in the docs says of the one rule: few false alarms, and power that grows with what was seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.judgement import simulation
from tests.judgement.simulation import COUNTS, NAME, OWN, REAL, SHAPES, false_alarms, formerly, power
from tests.tables_in_docs import written
from workbench.judgement.against_controls import ALPHA, Tally, compare_counts

DRAWS = 1000


@pytest.mark.parametrize("shape", SHAPES)
def test_a_further_null_model_is_beyond_at_any_place_in_at_most_a_twentieth_of_cases(shape: str) -> None:
    """At 1, 3 and 7 places; of what is no more than three standard errors above, the simulation cannot tell."""
    for alarms in false_alarms(shape, 8, 64, 64, draws=DRAWS):
        assert alarms.value <= ALPHA + 3 * alarms.error
        assert alarms.error < 0.006


def test_the_rule_before_raised_false_alarms_at_seven_places_in_more_than_a_tenth_of_cases() -> None:
    for shape, models, n in (("exponential, .15", 8, 64), ("beta (½, 2)", 5, 64), ("normal, .3 ± .1", 8, 3)):
        before = false_alarms(shape, models, n, 64, formerly, DRAWS)[-1]
        assert before.value - 3 * before.error > 0.1


@pytest.mark.parametrize("shape", REAL)
def test_power_grows_with_the_answers_of_null_models_and_with_the_models(shape: str) -> None:
    by_answers = [power(shape, 8, n, 64, draws=DRAWS) for n in (3, 16, 64)]
    by_models = [power(shape, models, 64, 64, draws=DRAWS) for models in (3, 5, 8)]
    for grows in (by_answers, by_models):
        for fewer, more in pairwise(grows):
            for one, other in zip(fewer, more, strict=True):
                assert one.value <= other.value + 3 * np.hypot(one.error, other.error)
        assert grows[0][1].value < grows[-1][1].value - 0.05  # at three places


@pytest.mark.parametrize("shape", ["beta (2, 5)", "two modes, .05 or .6"])
def test_what_is_simulated_is_the_rule(shape: str) -> None:
    hits, _ = simulation.nulls(shape, 4, 12, 20)
    p = simulation.p_values(hits, 12, 64)
    for row, models in zip(p, hits, strict=True):
        for own in (0, 20, 40, 64):
            compared = compare_counts(Tally(own, 64), [Tally(int(k), 12) for k in models], "")
            assert row[own] == pytest.approx(compared.p, rel=1e-9, abs=1e-12)


def test_the_table_in_the_docs_is_what_is_simulated() -> None:
    """Of its cells those that are simulated in no time."""
    cells = {tuple(row[:2]): row[2:] for row in written(NAME)}
    assert len(cells) == len(OWN) * (len(SHAPES) + len(REAL))
    assert [len(row) for row in cells.values()] == [len(COUNTS)] * len(cells)
    for shape in list(SHAPES)[::3]:
        for i, counts in enumerate(COUNTS[:2]):
            shares = false_alarms(shape, *counts, 64) + false_alarms(shape, *counts, 64, formerly)
            assert cells[shape, "64"][i] == simulation.cell(shares)
