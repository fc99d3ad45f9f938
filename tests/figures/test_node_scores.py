"""The map of heads and MLPs by position has the numbers measured, and its control the same colours."""

from __future__ import annotations

import numpy as np
import pytest

from workbench import figures
from workbench.measurement import Measurement

NODES, POSITIONS = ["a0.h0", "a0.h1", "m0"], range(5)


def scores(scale: float = 1.0) -> Measurement:
    values = scale * np.random.default_rng(0).standard_normal((3, 5, 9))
    coords = {"node": NODES, "position": POSITIONS, "example": range(9)}
    about = {"model": "model", "pairs": "pointer"}
    return Measurement("Scores", values, ("node", "position", "example"), coords, "logits", about)


def test_every_cell_has_its_mean_and_interval() -> None:
    measured, mean = scores(), scores().mean()
    figure = figures.node_scores(measured)
    (drawn,) = figure.data
    assert np.allclose(drawn.z, mean.values) and list(drawn.y) == NODES and list(drawn.x) == list(POSITIONS)
    assert mean.low is not None and np.allclose(drawn.customdata[..., 0], mean.low)
    assert figure.layout.coloraxis.cmax == pytest.approx(abs(mean.values).max()) == -figure.layout.coloraxis.cmin
    assert figures.node_scores(mean).to_json() == figure.to_json()


def test_a_control_stands_below_in_the_same_colours() -> None:
    figure = figures.node_scores(scores(), scores(0.1))
    top, below = figure.data
    assert np.allclose(below.z, scores(0.1).mean().values) and top.coloraxis == below.coloraxis == "coloraxis"
    assert figure.layout.coloraxis.cmax == pytest.approx(abs(scores().mean().values).max())
    assert "change nothing relevant" in figure.layout.annotations[1].text
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]


def test_other_measures_are_refused() -> None:
    with pytest.raises(ValueError, match="by node and position, not by position"):
        figures.node_scores(scores().select(node="m0"))
