"""A run over training: each of its measurements as lines, or as a map where there are too many."""

from __future__ import annotations

from typing import Any

import numpy as np
import plotly.graph_objects as go

from workbench.figures.curves import sample_size
from workbench.figures.entropy import HEIGHT, TOP, by_layer_over_training
from workbench.figures.over_training import line_name, map_over_training, over_training
from workbench.inspection.over_training import Timeline
from workbench.measurement import Measurement
from workbench.mechanisms import MECHANISMS
from workbench.util.lookup import lookup

MOST_LINES = 14


def timeline(followed: Timeline, name: str) -> go.Figure:
    """One measurement over training: lines, with the control of claims; where there are too many, a map.

    Args:
        followed: the run over training.
        name: an instrument or mechanism that was measured.

    Raises:
        ValueError: if that was not measured.
    """
    own = lookup(followed.measured, name, "measure of this timeline")
    if name == "entropy":
        return by_layer_over_training({followed.name: own}, {})[0]
    where: dict[str, Any] = {}
    if "head" in own.dims and followed.head is not None:
        where = dict(zip(("layer", "head"), followed.head, strict=True))
    found = lines(own, **where)
    if len(found) > MOST_LINES:
        rows = {line_name(label): line for label, line in found.items()}
        return map_over_training(rows, own.name, f"{followed.name} over training")
    with_control = name in followed.controls and (name in MECHANISMS or len(found) == 1)
    control = lines(followed.controls[name], **where) if with_control else {}
    alone = "claim holds" if name in MECHANISMS else own.name
    named, controls = ({line_name(label) or alone: line for label, line in one.items()} for one in (found, control))
    in_order = bool({"layer", "depth", "hop", "length", "digit"} & set(own.dims)) and len(named) > 2
    subtitle = _subtitle(followed, own, bool(where), bool(controls))
    figure = over_training(named, own.name, subtitle, controls=controls, in_order=in_order, events=followed.events)
    return figure.update_layout(margin_t=TOP, height=HEIGHT)


def _subtitle(followed: Timeline, own: Measurement, of_head: bool, controlled: bool) -> str:
    """Two lines: what of, and how sure it is."""
    head = ", layer {}, head {}".format(*followed.head) if of_head and followed.head else ""
    dotted = "; dotted: control" if controlled else ""
    return f"{followed.name} over training{head}<br>{sample_size({'': own})}; bands: 95 % intervals{dotted}"


def lines(measurement: Measurement, **where: Any) -> dict[str, Measurement]:
    """A measurement over steps as one line for each place that has any value: label -> dims `("step",)`."""
    part = measurement.select(**where)
    inner = part.dims[1:]
    found = {}
    for index in np.ndindex(*part.values.shape[1:]):
        place = {dim: part.coords[dim][i] for dim, i in zip(inner, index, strict=True)}
        line = part.select(**place)
        if not np.isnan(line.values).all():
            found[", ".join(f"{dim} {label}" for dim, label in place.items())] = line
    return found
