"""A run over training: each of its measurements as lines, or as a map where there are too many."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.curves import sample_size
from workbench.figures.entropy import TOP, by_layer_over_training
from workbench.figures.over_training import map_over_training, over_training
from workbench.inspection.over_training import Timeline
from workbench.measurement import Measurement
from workbench.measurement.places import place_in_words
from workbench.mechanisms import MECHANISMS
from workbench.util.lookup import lookup

MOST_LINES = 14
HEIGHT = 350  # pixels: a page has the learning curves above it
IN_ORDER = {"layer", "depth", "hop", "length", "digit"}  # dims whose lines are coloured in their order


def timeline(followed: Timeline, name: str) -> go.Figure:
    """One measurement over training: lines, with the control of claims; where there are too many, a map.

    Args:
        followed: the run over training.
        name: an instrument or mechanism that was measured.

    Raises:
        ValueError: if that was not measured.
    """
    measured = lookup(followed.measured, name, "measure of this timeline")
    if name == "entropy":
        return by_layer_over_training({followed.name: measured}, {})[0]
    head: dict[str, Any] = {}
    if "head" in measured.dims and followed.head is not None:
        head = dict(zip(("layer", "head"), followed.head, strict=True))
    alone = "claim holds" if name in MECHANISMS else measured.name
    by_place = lines(measured.select(**head), alone)
    if len(by_place) > MOST_LINES:
        return map_over_training(by_place, measured.name, f"{followed.name} over training")
    controls = {}
    if name in followed.controls and (name in MECHANISMS or len(by_place) == 1):
        controls = lines(followed.controls[name].select(**head), alone)
    in_order = bool(IN_ORDER & set(measured.dims)) and len(by_place) > 2
    whose = ", layer {layer}, head {head}".format_map(head) if head else ""
    subtitle = f"{followed.name} over training{whose}<br>{sample_size({'': measured})}; bands: 95 % intervals"
    subtitle += "; dotted: control" if controls else ""
    figure = over_training(
        by_place, measured.name, subtitle, controls=controls, in_order=in_order, events=followed.events
    )
    return figure.update_layout(margin_t=TOP, height=HEIGHT)


def lines(measured: Measurement, alone: str) -> dict[str, Measurement]:
    """A measurement over steps as one line for each place that has any value: the place in words -> its line.

    Args:
        measured: the first dim is `step`.
        alone: the name of the line where there is one place only.
    """
    by_place = {}
    for index in np.ndindex(*measured.values.shape[1:]):
        place = {dim: measured.coords[dim][i] for dim, i in zip(measured.dims[1:], index, strict=True)}
        line = measured.select(**place)
        if not np.isnan(line.values).all():
            by_place[place_in_words(place) or alone] = line
    return by_place
