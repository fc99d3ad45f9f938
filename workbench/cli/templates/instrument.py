"""Attention distance (`template_name`): how many positions each head looks back, on average.

Shows: which heads read their neighbours and which read from afar. Does not show: what they read there, or whether the
model needs it. Controls: models of the same shape with fresh weights (`untrained`), and attention drawn at random over
earlier positions (`random_graph`).
"""

from __future__ import annotations

import sys

import numpy as np
import torch

from workbench.capture import Capture, Subject
from workbench.instruments.attention.attention_graph import needs, pattern
from workbench.measurement import Measurement

__all__ = ["CONTROLS", "INSTRUMENTS", "measure", "needs", "why_not"]

CONTROLS = ("untrained", "random_graph")


def why_not(subject: Subject) -> str | None:
    """Why this cannot be measured of a model, in one line; None if it can."""
    return None


def measure(capture: Capture) -> Measurement:
    """Mean distance from query to key, weighted by the pattern: dims `layer`, `head`, `example`."""
    n, n_pos = capture.batch.tokens.shape
    position = torch.arange(n_pos)
    distance = position[:, None] - position
    layers = range(capture.subject.n_layers)
    values = np.stack([(pattern(capture, i).double() * distance).sum(-1).mean(-1).T.numpy() for i in layers])
    return Measurement(
        name="Attention distance",
        values=values,
        dims=("layer", "head", "example"),
        coords={"layer": range(values.shape[0]), "head": range(values.shape[1]), "example": range(n)},
        units="positions",
        settings={"model": capture.subject.name},
        caption="Mean number of positions between a query and what it attends to, whatever is read there.",
    )


INSTRUMENTS = {"template_name": sys.modules[__name__]}  # an instrument is a module with these functions
