"""The figure of dispersion: runs beside each other with controls, and the sentence above it."""

from __future__ import annotations

import numpy as np

from workbench import figures
from workbench.measurement import Measurement
from workbench.report.verdicts import dispersed

KEYS = ["2–3", "4–7", "8–15"]


def measured(*heads: list[float], layers: int = 1) -> Measurement:
    """One layer of these heads by number of keys, as often as there are layers."""
    return Measurement(
        name="Dispersion of attention",
        values=np.array([heads] * layers),
        dims=("layer", "head", "keys"),
        coords={"layer": range(layers), "head": range(len(heads)), "keys": KEYS},
        units="share of log n",
        settings={"model": "planted"},
    )


NONE = float("nan")
FLAT, SHARP = measured([0.2, 0.5, 0.8], [0.4, 0.7, 1.0]), measured([0.2, 0.1, 0.1], layers=2)
FRESH = measured([1.0, 0.9, 0.9])


def test_every_head_is_drawn_thin_their_mean_thick_and_controls_dotted() -> None:
    (figure,) = figures.dispersion({"flat": FLAT, "sharp": SHARP}, {"flat": {"untrained": FRESH}})
    by_name = {trace.name: trace for trace in figure.data if trace.xaxis == "x"}
    assert np.allclose(by_name["flat"].y, [0.3, 0.6, 0.9]) and list(by_name["flat, head 1"].y) == [0.4, 0.7, 1.0]
    assert by_name["flat, head 1"].line.width < by_name["flat"].line.width
    assert by_name["flat, re-initialised models"].line.dash == by_name["uniform attention"].line.dash == "dot"
    assert list(by_name["uniform attention"].y) == [1, 1, 1]
    assert {trace.name for trace in figure.data if trace.xaxis == "x2"} == {
        "sharp",
        "sharp, head 0",
        "uniform attention",
    }
    legend = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(legend) == sorted({"flat", "flat, re-initialised models", "sharp", "uniform attention"})


def test_numbers_of_keys_that_no_row_has_are_left_out() -> None:
    short = measured([0.2, 0.5, NONE])
    (figure,) = figures.dispersion({"short": short}, {})
    assert list(figure.layout.xaxis.categoryarray) == KEYS[:2]
    assert (
        dispersed({"short": short}, {}) == "Evenness of rows, mean over heads: short 20% at 2–3 keys, 50% at 4–7 keys."
    )
    assert dispersed({"none": measured([0.2, NONE, NONE])}, {}) is None


def test_the_sentence_has_every_run_with_its_control() -> None:
    said = dispersed({"flat": FLAT, "sharp": SHARP}, {"flat": {"untrained": FRESH}})
    assert said == (
        "Evenness of rows, mean over heads: flat 30% at 2–3 keys, 90% at 8–15 keys (re-initialised models 100% at 2–3 "
        "keys, 90% at 8–15 keys); sharp 20% at 2–3 keys, 10% at 8–15 keys."
    )


def test_a_report_draws_it_too() -> None:
    assert figures.FIGURES["dispersion"] is figures.dispersion
