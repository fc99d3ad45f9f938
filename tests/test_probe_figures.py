"""Probes beside their controls: every condition is drawn with its number, the probe apart from its controls."""

from __future__ import annotations

import numpy as np
import pytest

from workbench import figures
from workbench.instruments import Measurement

CONDITIONS = ("trained", "shuffled labels", "untrained model", "most frequent label")
SETTINGS = {"model": "chain", "point": "blocks.0.hook_resid_mid", "position": None, "sequences": 256}


def probed() -> Measurement:
    right = (np.random.default_rng(0).random((4, 40)) < np.array([0.97, 0.1, 0.3, 0.2])[:, None]).astype(float)
    coords = {"condition": CONDITIONS, "example": range(40)}
    return Measurement("Linear probe for root", right, ("condition", "example"), coords, "share", SETTINGS).mean()


def test_a_card_has_a_bar_for_each_condition_with_its_interval_and_number() -> None:
    found = probed()
    bars, words = figures.probe_card(found).data
    assert list(bars.y) == list(CONDITIONS) and bars.x == pytest.approx(found.values)
    assert found.high is not None and bars.error_x.array == pytest.approx(found.high - found.values)
    assert list(words.text) == [f"{value:.1%}" for value in found.values] and (words.x > found.high).all()
    subtitle = figures.probe_card(found).layout.title.subtitle.text
    assert subtitle == "chain, 0 · mid, every labelled position; means over 40 sequences; bars are 95 % intervals"


def test_by_layer_has_a_line_for_each_condition_over_the_points() -> None:
    points = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid"]
    found = Measurement.stack([probed(), probed()], "point", points)
    figure = figures.probe_by_layer(found)
    assert [line.name for line in figure.data] == list(CONDITIONS)
    assert list(figure.data[0].x) == ["embedding", "0 · mid"]
    assert figure.data[2].y == pytest.approx(found.select(condition="untrained model").values)
    assert [line.line.dash for line in figure.data] == ["solid", "dash", "dot", "dashdot"]
    assert figure.layout.title.subtitle.text.startswith("chain, every labelled position")
