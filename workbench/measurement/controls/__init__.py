"""Controls: what a measured number is compared with. A new control is one file and one entry in `CONTROLS`."""

from __future__ import annotations

from workbench.measurement.controls import mismatched, random_graph, untrained
from workbench.measurement.controls.base import Control

UNTRAINED = "untrained"
"""The control that is measured on several models with fresh weights, and has their range."""

CONTROLS: dict[str, Control] = {
    "mismatched": mismatched.CONTROL,
    "random_graph": random_graph.CONTROL,
    UNTRAINED: untrained.CONTROL,
}

__all__ = ["CONTROLS", "UNTRAINED", "Control"]
