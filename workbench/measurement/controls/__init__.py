"""Controls: what a measured number is compared with. A new control is one file and one entry in `CONTROLS`."""

from __future__ import annotations

from workbench.measurement.controls import mismatched, random_graph, untrained
from workbench.measurement.controls.base import Control

UNTRAINED, SHUFFLED = "untrained", "shuffled"
"""Uninformed models: re-initialised ones, which are the control of that name, and the run's own weights shuffled."""

CONTROLS: dict[str, Control] = {
    "mismatched": mismatched.CONTROL,
    "random_graph": random_graph.CONTROL,
    UNTRAINED: untrained.CONTROL,
}

__all__ = ["CONTROLS", "SHUFFLED", "UNTRAINED", "Control"]
