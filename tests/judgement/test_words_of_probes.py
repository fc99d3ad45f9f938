"""Where a probe gains most over its baselines."""

from __future__ import annotations

import numpy as np

from workbench.judgement.decodable import CONTROL, TOKEN, TRAINED
from workbench.judgement.words.probes import gained
from workbench.measurement import Measurement
from workbench.probes import gain

POINTS = ("blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.0.hook_resid_post")


def accuracy(trained: list[float], token: list[float]) -> Measurement:
    coords = {"condition": (TRAINED, TOKEN), "point": POINTS}
    return Measurement("Accuracy", np.array([trained, token]), ("condition", "point"), coords, "share")


def test_points_at_which_a_probe_gains_as_much_are_all_named() -> None:
    """It was the first of equals alone."""
    one = accuracy([0.5, 0.9, 0.8], [0.5, 0.25, 0.3])
    other = "the best baseline or re-initialised model"
    lead = "Furthest beyond its baselines"
    assert gained(one, gain(one)) == f"{lead} after attention 0: 90% decoded; {other} 25%."
    two = accuracy([0.5, 0.9, 1.0], [0.5, 0.25, 0.35])
    where = "after attention 0 and after MLP 0"
    assert gained(two, gain(two)) == f"{lead} {where}: 90 to 100% decoded; {other} 25 to 35%."
    none = accuracy([np.nan] * 3, [0.5] * 3)
    assert gained(none, gain(none)) is None
    coords = {"condition": (TRAINED, TOKEN), "place": ["6", "7"]}
    of_places = Measurement("Accuracy", np.array([[0.5, 0.9], [0.5, 0.25]]), ("condition", "place"), coords, "share")
    assert f"{lead} at position 7: 90%" in str(gained(of_places, gain(of_places)))


def test_a_control_task_that_the_probe_learns_as_well_is_said() -> None:
    def told(control: list[float]) -> str:
        coords = {"condition": (TRAINED, TOKEN, CONTROL), "point": POINTS}
        values = np.array([[0.5, 0.9, 0.8], [0.5, 0.25, 0.3], control])
        measured = Measurement("Accuracy", values, ("condition", "point"), coords, "share")
        return str(gained(measured, gain(measured)))

    said = " The probe also learns a random class for each token (control task: 88%)."
    assert told([1.0, 0.88, 1.0]).endswith(f"25%.{said}")
    assert told([1.0, 0.6, 1.0]).endswith("25%.") and told([1.0, np.nan, 1.0]).endswith("25%.")
