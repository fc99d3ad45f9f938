"""Lines over one dim as a drawing: every value is where its number says, and says it on hover."""

from __future__ import annotations

import re

import numpy as np
import pytest

from workbench.figures.chart import chart
from workbench.measurement import Measurement


def line(values: list[float], coords: list[object], units: str = "share", dim: str = "step") -> Measurement:
    return Measurement("Accuracy", np.array(values), (dim,), {dim: coords}, units)


def marks(svg: str) -> list[tuple[float, float, str]]:
    """Where each mark is, and what it says."""
    found = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" [^>]*data-tip="([^"]*)"', svg)
    return [(float(x), float(y), tip) for x, y, tip in found]


def test_marks_lie_in_proportion_to_steps_and_shares() -> None:
    (x0, y0, first), (x1, y1, _), (x2, y2, last) = marks(chart("", {"a": line([0.0, 0.5, 1.0], [0, 100, 400])}).svg())
    assert x1 - x0 == pytest.approx((x2 - x0) / 4, abs=0.02) and y0 - y1 == pytest.approx(y1 - y2, abs=0.02)
    assert (first, last) == ("a, step 0: 0%", "a, step 400: 100%")


def test_a_value_that_is_not_known_has_no_mark_and_names_are_text() -> None:
    unknown = line([float("nan"), 1.5, float("inf")], ["embedding", "<b>", "c"], "nats", "layer")
    svg = chart(
        "", {"<img>": line([1.0, 2.0, 3.0], ["embedding", "<b>", "c"], "nats", "layer"), "other": unknown}
    ).svg()
    assert len(marks(svg)) == 4 and "<b>" not in svg and "<img>" not in svg and not re.search(r"\bnan\b", svg)
    assert marks(svg)[3][2] == "other, &lt;b&gt;: 1.50 nats"


@pytest.mark.parametrize("most", [0.0, 0.003, 0.7, 3.4, 1200.0])
def test_numbers_of_the_axis_are_round_and_reach_above_all_values(most: float) -> None:
    svg = chart("", {"a": line([0.0, most], [0, 1], "nats")}).svg()
    ticks = [float(tick) for tick in re.findall(r'class="quiet">([\d.e-]+)</text>', svg)][:-2]
    assert ticks[0] == 0 and ticks[-1] >= most and 2 <= len(ticks) <= 6
    assert all(len(f"{tick:g}".replace(".", "").strip("0")) <= 2 for tick in ticks)
