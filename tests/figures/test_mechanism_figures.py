"""Figures of mechanisms show each claim beside its controls, and what each edit did to answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from workbench import figures
from workbench.measurement import Measurement
from workbench.measurement.controls import CONTROLS

LENGTHS = [2, 4, 8]
OTHERS = CONTROLS["mismatched"].words


def rates(shares: list[float], **settings: Any) -> Measurement:
    """A claim that holds in these shares of twenty sequences of each length."""
    parts = [np.arange(20) < 20 * share for share in shares]
    coords = {"length": LENGTHS, "example": range(20)}
    values = np.array(parts, dtype=float)
    return Measurement("Minimum", values, ("length", "example"), coords, "share", settings).mean()


def edits_of(name: str, *edits: str) -> Measurement:
    values = np.array([[[1.0] * 9 + [0.0]] * 2, [[0.0] * 10] * 2])
    coords = {"edit": edits, "outcome": ("as claimed", "changed"), "example": range(10)}
    return Measurement(name, values, ("edit", "outcome", "example"), coords, "share").mean()


@pytest.fixture
def by_length() -> go.Figure:
    runs = {"plain": rates([1.0, 0.5, 0.25], point="blocks.0.hook_resid_mid", basis="decoder"), "hints": rates([1] * 3)}
    controls = {"plain": {"mismatched": rates([0.1] * 3)}, "hints": {"mismatched": rates([0.2] * 3)}}
    (figure,) = figures.mechanism_rates(runs, controls)
    return figure


def test_rates_by_length_stand_beside_their_runs_controls(by_length: go.Figure) -> None:
    lines = {line.name: line for line in by_length.data}
    assert list(lines) == ["plain", f"plain, {OTHERS}", "hints", f"hints, {OTHERS}"]
    assert list(lines["plain"].x) == LENGTHS and list(lines["plain"].y) == [1, 0.5, 0.25]
    for run in ("plain", "hints"):
        own, control = lines[run].line, lines[f"{run}, {OTHERS}"].line
        assert own.color == control.color and own.dash == "solid" != control.dash
    assert lines["plain"].line.color != lines["hints"].line.color
    assert lines["plain"].error_y.arrayminus[0] > 0.05  # Wilson's: 20 of 20 is not certainty


def test_rates_say_where_they_were_read_and_over_how_many(by_length: go.Figure) -> None:
    said = by_length.layout.title.subtitle.text
    assert "after attention 0; decoder basis" in said and "20 sequences at each length" in said
    assert by_length.layout.xaxis.title.text == "length" and by_length.layout.yaxis.tickformat == ".0%"


def test_a_claim_read_in_several_places_has_a_figure_for_each() -> None:
    points = ["blocks.0.hook_resid_mid", "blocks.0.hook_attn_out"]
    place = Measurement.stack([rates([1.0, 1.0, 1.0]), rates([0.0, 0.5, 0.0])], "point", points)
    columns = {name: np.moveaxis(getattr(place, name), 0, 1) for name in ("values", "low", "high", "n")}
    copy = Measurement("Copy", dims=("length", "point"), coords=place.coords, units="share", **columns)
    first, second = figures.mechanism_rates({"a": copy}, {})
    assert list(first.data[0].y) == [1, 1, 1] and list(second.data[0].y) == [0, 0.5, 0]
    assert "at attention 0's write" in second.layout.title.subtitle.text


def test_causal_tests_show_every_edit_of_every_mechanism_once_for_each_run() -> None:
    tests = [edits_of("Minimum", "claimed", "elsewhere"), edits_of("Copy", "claimed", "elsewhere")]
    one, two = figures.causal_tests({"one": tests, "two": tests[:1]})
    assert "one" in one.layout.title.subtitle.text and "two" in two.layout.title.subtitle.text
    as_claimed, changed = one.data
    assert list(as_claimed.x) == list(changed.x) == [0.9, 0, 0.9, 0]
    assert list(as_claimed.customdata)[::3] == ["Minimum, claimed", "Copy, elsewhere"]
    assert [text for text in one.layout.yaxis.ticktext][:2] == ["claimed (n = 10)", "elsewhere (n = 10)"]
    assert [heading.text for heading in one.layout.annotations] == ["<b>Minimum</b>", "<b>Copy</b>"]


def test_figures_of_mechanisms_are_transparent_and_export(by_length: go.Figure) -> None:
    for figure in (by_length, *figures.causal_tests({"a": [edits_of("Minimum", "claimed", "elsewhere")]})):
        assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
        assert figure.layout.title.text and figure.layout.xaxis.title.text
        json.loads(figure.to_json())
