"""A low entropy is called a collapse only below re-initialised models, and without the rows that dominate."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.instruments.residual.dominant_rows import ASIDE
from workbench.judgement.entropy import Spread, judge
from workbench.judgement.words.entropy import in_words
from workbench.measurement import Measurement

POINTS = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post"]


def measured(levels: list[float], noise: float = 0.1, n: int = 128, **aside: Any) -> Measurement:
    rng = np.random.default_rng(0)
    values = rng.normal(0, noise, n) + np.array(levels)[:, None] + rng.normal(0, noise / 4, (3, n))
    beside = {name: np.full((3, n), np.nan) for name in ASIDE}
    return Measurement(
        "Matrix entropy",
        values,
        ("layer", "example"),
        {"layer": POINTS, "example": range(n)},
        "nats",
        aside=beside | aside,
    )


def models(levels: list[float], noise: float = 0.02) -> Measurement:
    values = np.random.default_rng(1).normal(levels, noise, (8, 3))
    return Measurement("Matrix entropy", values, ("draw", "layer"), {"draw": range(8), "layer": POINTS}, "nats")


def judged(examples: Measurement, draws: Measurement | None = None) -> Spread:
    found = judge(examples.mean(), examples, draws)
    assert found is not None and Spread.model_validate_json(found.model_dump_json()) == found
    return found


def test_a_layer_is_named_only_where_it_is_clearly_least() -> None:
    tied = judged(measured([1.442, 1.442, 1.441]))
    assert tied.least.anywhere and in_words(tied).endswith("over 3 layers, none of them clearly the least.")
    clear = judged(measured([2.0, 1.7, 1.2]), models([2.5, 2.4, 2.3]))
    assert clear.least.places == ({"layer": POINTS[2]},) and clear.at_least is not None
    assert in_words(clear).startswith(
        "Matrix entropy lies below 8 re-initialised models after attention 0 and after MLP 0: representations collapse"
    ), "what is embedded no layer has worked on"
    assert "than theirs. It is least after MLP 0 (1.2" in in_words(clear)
    assert "8 re-initialised models 2.2" in in_words(clear)


def test_a_collapse_lies_below_what_a_further_re_initialised_model_would_have() -> None:
    assert judged(measured([2.0, 1.7, 1.2]), models([2.0, 1.7, 1.2])).collapsed == ()
    low = judged(measured([2.0, 1.7, 1.2]), models([2.0, 1.7, 1.6]))
    assert low.collapsed == (
        POINTS[2],
    ) and "below 8 re-initialised models after MLP 0: representations collapse" in in_words(low)
    assert judged(measured([2.0, 1.7, 1.2]), models([2.0, 1.7, 1.6], 0.6)).collapsed == (), "they differ widely"
    assert judged(measured([2.0, 1.7, 1.2])).collapsed == (), "with nothing to compare"
    none = in_words(judged(measured([2.0, 1.7, 1.2]), models([2.0, 1.7, 1.2])))
    assert none.startswith("At no layer is matrix entropy clearly below 8 re-initialised models: no collapse is seen.")


def test_a_dominant_row_is_no_collapse_and_is_said_with_its_position_share_and_the_entropy_without() -> None:
    n = 128
    of_layer = np.array([[False], [False], [True]]) & np.ones((1, n), dtype=bool)
    aside = {name: np.where(of_layer, value, np.nan) for name, value in zip(ASIDE, (2.22, 1, 0.998, 0), strict=True)}
    found = judged(measured([2.3, 2.25, 0.02], 0.001, n, **aside), models([2.3, 2.25, 2.2], 0.02))
    (row,) = found.dominated
    assert (row.layer, row.sequences, row.of, row.rows, row.position, row.at_position) == (POINTS[2], n, n, 1, 0, n)
    assert abs(row.share - 0.998) < 1e-9 and abs(row.value - 0.02) < 1e-3 and abs(row.without - 2.22) < 1e-9
    assert found.collapsed == () and found.low > 2
    said = in_words(found)
    assert said.startswith("At no layer is matrix entropy without the dominant tokens clearly below")
    assert said.endswith(
        "After MLP 0 one token holds 99.8% of the squared norm in 128 of 128 sequences, that at position 0 in 128: "
        "matrix entropy is 0.02 nats with it, 2.22 nats without."
    )


def test_of_no_value_nothing_is_said() -> None:
    nothing = Measurement("x", np.full(1, np.nan), ("layer",), {"layer": [0]}, "nats")
    assert judge(nothing) is None
