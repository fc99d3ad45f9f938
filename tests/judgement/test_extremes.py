"""Ties are not extremes: the least and the most are named where they can be told from other places."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.judgement.extremes import Extreme, extreme
from workbench.judgement.words.extremes import at_places
from workbench.measurement import Measurement

GROUPS = [2, 22, 26, 30]


def by_length(examples: Any, units: str = "share") -> tuple[Measurement, Measurement]:
    values = np.array(examples, dtype=float)
    each = Measurement(
        "Accuracy",
        values,
        ("length", "example"),
        {"length": GROUPS[: len(values)], "example": range(values.shape[1])},
        units,
    )
    return each.mean(), each


def test_all_places_that_are_alike_are_named() -> None:
    mean, _ = by_length([[1] * 40, [0] * 40, [0] * 40, [0] * 40])
    least, most = extreme(mean, "least"), extreme(mean, "most")
    assert least is not None and most is not None
    assert [place["length"] for place in least.places] == [22, 26, 30] and at_places(least) == "at length 22, 26 and 30"
    assert most.settled and most.places == ({"length": 2},) and not least.settled
    assert Extreme.model_validate_json(least.model_dump_json()) == least


def test_pairing_tells_places_apart_that_intervals_do_not() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(5, 1, 50)
    mean, each = by_length([hard, hard + 0.1 + rng.normal(0, 0.01, 50)], "nats")
    alone, paired = extreme(mean, "least"), extreme(mean, "least", each)
    assert alone is not None and alone.anywhere and paired is not None and paired.settled


def test_seeds_count_where_a_measure_is_a_mean_over_them() -> None:
    values = np.array([[1.0, 1.2, 1.1], [1.05, 1.15, 1.12], [3.0, 3.1, 3.2]])
    mean = Measurement("Entropy", values, ("layer", "seed"), {"layer": [0, 1, 2], "seed": [0, 1, 2]}, "nats").mean(
        "seed"
    )
    least = extreme(mean, "least")
    assert least is not None and [place["layer"] for place in least.places] == [0, 1]


def test_the_least_of_equal_layers_is_rarely_named() -> None:
    """Of five layers with the same mean, the one that happens to be least is named in 5 % of draws or fewer."""
    rng, named = np.random.default_rng(1), 0
    for _ in range(100):
        values = rng.normal(1.44, 0.1, (5, 64))
        each = Measurement("Entropy", values, ("layer", "example"), {"layer": range(5), "example": range(64)}, "nats")
        found = extreme(each.mean(), "least", each)
        named += found is not None and found.settled
    assert named <= 10
    each.values[2] -= 0.2
    least = extreme(each.mean(), "least", each)
    assert least is not None and least.places == ({"layer": 2},)


def test_of_no_number_there_is_no_extreme() -> None:
    assert extreme(Measurement("x", np.full(2, np.nan), ("hop",), {"hop": [1, 2]}, "share"), "most") is None
