"""Probes beside their controls: every condition is drawn with its number, the probe apart from its controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench import figures
from workbench.figures.style import in_one_line
from workbench.measurement import Measurement
from workbench.probes import CONDITIONS

SHARES = np.array([0.97, 0.3, 0.25, 0.28, 0.27, 0.1, 0.2, 0.9])
SETTINGS: dict[str, Any] = {
    "model": "chain",
    "positions": "labelled",
    "kind": "logistic",
    "sequences": 256,
    "label": "root",
}


def probed(units: str = "share", **settings: Any) -> Measurement:
    right = (np.random.default_rng(0).random((len(SHARES), 40)) < SHARES[:, None]).astype(float)
    coords = {"condition": list(CONDITIONS), "example": range(40)}
    about = {**SETTINGS, **settings}
    return Measurement("Logistic probe", right, ("condition", "example"), coords, units, about).mean()


def test_a_card_has_a_bar_for_each_condition_with_its_interval_and_number() -> None:
    found = probed(point="blocks.0.hook_resid_mid")
    bars, words = figures.probe_card(found).data
    assert list(bars.y) == list(CONDITIONS) and bars.x == pytest.approx(found.values)
    assert found.high is not None and bars.error_x.array == pytest.approx(found.high - found.values)
    assert list(words.text) == [f"{value:.1%}" for value in found.values] and (words.x > found.high).all()
    assert figures.probe_card(found).layout.title.text == "Logistic probe for root"
    subtitle = figures.probe_card(found).layout.title.subtitle.text
    assert in_one_line(subtitle) == (
        "chain, after attention 0, every labelled position; logistic; means over 40 sequences; bars are 95 % intervals"
    )


def test_a_condition_that_has_nothing_to_tell_apart_is_not_drawn() -> None:
    found = probed()
    found.values[-1] = np.nan
    assert list(figures.probe_card(found).data[0].y) == list(CONDITIONS[:-1])
    layers = Measurement.stack([found, found], "point", ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid"])
    assert [line.name for line in figures.probe_by_layer(layers).data] == list(CONDITIONS[:-1])


def test_r_squared_is_no_percentage() -> None:
    figure = figures.probe_card(probed("R²"))
    assert figure.data[1].text[0] == f"{probed('R²').values[0]:.2f}" and "R²" in figure.layout.xaxis.title.text


def layers() -> Measurement:
    points = ["blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid"]
    return Measurement.stack([probed(), probed()], "point", points)


def test_by_layer_has_a_line_for_each_condition_over_the_points() -> None:
    found = layers()
    figure = figures.probe_by_layer(found)
    assert [line.name for line in figure.data] == list(CONDITIONS)
    assert list(figure.data[0].x) == ["embedding", "after attention 0"]
    assert figure.data[2].y == pytest.approx(found.select(condition="current token").values)
    assert len({line.line.dash for line in figure.data}) == len(CONDITIONS)
    assert figure.layout.title.subtitle.text.startswith("chain, every labelled position")


def test_runs_have_a_line_each_and_their_baseline_in_the_same_colour() -> None:
    figure = figures.probe_runs({"one": layers(), "two": layers()})
    assert [line.name for line in figure.data] == ["one", "one, current token", "two", "two, current token"]
    assert figure.data[0].line.color == figure.data[1].line.color != figure.data[2].line.color


@pytest.mark.parametrize(("dim", "names"), [("place", ["7", "9", "11"]), ("label", ["root", "ancestor_1", "depth"])])
def test_a_map_has_a_cell_for_each_point_and_place_or_label(dim: str, names: list[str]) -> None:
    found = Measurement.stack([layers()] * 3, dim, names)
    (heat,) = figures.probe_map(found).data
    assert np.shape(heat.z) == (2, 3) and list(heat.y) == ["embedding", "after attention 0"]
    assert list(heat.x) == [name.replace("_", " ") for name in names]
    assert "current token" in heat.customdata[0][0] and heat.text[0][0] == f"{heat.z[0][0]:.0%}"


def test_a_causal_test_has_every_edit_and_outcome_that_there_is() -> None:
    values = np.random.default_rng(0).random((3, 3, 30))
    values[:, 2] = np.nan
    coords: dict[str, Any] = {
        "edit": ["another label", "same label", "other directions"],
        "outcome": ["answers changed", "probability moved", "answers that follow"],
        "example": range(30),
    }
    about = {"model": "chain", "place": "labelled", "point": "blocks.0.hook_resid_mid", "how": "erase", "directions": 3}
    effect = Measurement("Answers", values, ("edit", "outcome", "example"), coords, "share", about).mean()
    figure = figures.probe_use(effect)
    assert [trace.name for trace in figure.data] == ["answers changed", "probability moved"]
    assert list(figure.layout.yaxis.ticktext) == coords["edit"]
    assert "erase at labelled, after attention 0, 3 directions" in figure.layout.title.subtitle.text


def test_a_learning_curve_says_what_a_label_costs() -> None:
    curve = Measurement.stack([probed(), probed()], "fitted", [16, 32])
    figure = figures.probe_learning(curve, probed("bits a label"))
    assert list(figure.data[0].x) == [16, 32] and figure.data[0].name.endswith("bits a label")
