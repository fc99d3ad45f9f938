"""Numbers as text: equal text only for equal numbers, and never all or none for what is not."""

from __future__ import annotations

from math import nan

import pytest

from workbench.measurement.numbers import (
    between,
    counted,
    decimals,
    difference,
    number,
    p_value,
    percent,
    percents,
    share_with_interval,
    share_with_range,
    with_interval,
)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.667, "66.7%"), (0.98, "98%"), (1.0, "100%"), (0.0, "0%"), (0.99999, ">99.9%"), (1e-6, "<0.1%"), (nan, "–")],
)
def test_a_share_is_in_per_cent_and_all_means_all(share: float, text: str) -> None:
    assert percent(share) == text


def test_ranges_and_intervals_name_their_unit_once() -> None:
    assert percents([0.12, nan, 0.98]) == "12 to 98%"
    assert percents([0.98, 0.98]) == "98%"
    assert percents([nan]) == "–"
    assert share_with_interval(2 / 3, 0.602, 0.729) == "66.7% [60.2, 72.9]"
    assert share_with_range(0.142, 0.09, 0.211) == "14.2% (9 to 21.1%)"
    assert (share_with_range(0.4, 0.4, 0.4), share_with_range(0.4, None, None)) == ("40% (all alike)", "40%")
    assert between([1.48, nan, 1.39], "nats") == "1.39 to 1.48 nats" and between([0.98, 0.12], "share") == "12 to 98%"
    assert between([1.4411, 1.4409], "nats") == "1.44 nats" and between([3, 12], "tokens") == "3 to 12 tokens"
    assert between([1.05, 1.08], "exponent α") == "α = 1.05 to 1.08" and between([nan]) == "–"
    assert with_interval(1.434, 1.39, 1.48, "nats") == "1.43 nats [1.39, 1.48]"
    assert with_interval(1.434, None, None, "nats") == "1.43 nats"


def test_numbers_that_differ_look_different() -> None:
    assert with_interval(3.0281, 3.02806, 3.02814, "nats") == "3.02810 nats [3.02806, 3.02814]"
    assert decimals([3.0281, 3.0282]) == 4
    assert decimals([1.0, 1.0]) == 2
    assert decimals([0.5, 0.5 + 1e-12]) == 6  # as far as anyone reads


def test_a_difference_has_as_many_digits_as_it_needs_and_its_sign() -> None:
    assert difference(-0.00004, -0.00007, -0.00001, "nats") == "-0.00004 nats [-0.00007, -0.00001]"
    assert difference(0.129, -0.014, 0.272, "difference in share") == "+12.9 percentage points [-1.4, 27.2]"


def test_counts_round_but_never_to_all_or_none() -> None:
    assert counted(13, 34) == "13 of 34"
    assert counted(0.2, 34) == "0.6% of 34"
    assert counted(33.9, 34) == "99.7% of 34"
    assert counted(1234, 5678) == "1,234 of 5,678"


def test_numbers_have_their_units() -> None:
    assert number(1.434, "nats") == "1.43 nats"
    assert number(1200, "steps") == "1,200 steps"
    assert with_interval(2320, 0, 3220.19, "steps") == "2,320 steps [0, 3,220]"
    assert difference(1600, 365.74, 2834.26, "difference in steps") == "+1,600 steps [366, 2,834]"
    assert number(71_808.0) == "71,808" and number(71_808.5) == "71,808.50" and number(3.0) == "3.00"
    assert number(1, "steps") == "1 step"
    assert number(1.08, "exponent α") == "α = 1.08"
    assert number(0.0004, "nats") == "0.0004 nats"


def test_p_values_end_at_the_least_one_written() -> None:
    assert p_value(0.0312) == "p = 0.0312" and p_value(0.050001) == "p = 0.05"
    assert p_value(1e-9) == "p < 0.0001" and p_value(nan) == "p = –"
    assert tuple(p_value(p, alone=True) for p in (0.0312, 1e-9, nan)) == ("0.0312", "<0.0001", "–")
