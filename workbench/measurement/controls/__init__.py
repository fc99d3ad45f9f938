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


def in_words(name: str) -> str:
    """What legends call a control; what is not in `CONTROLS` is called by its name."""
    return CONTROLS[name].words if name in CONTROLS else name


def short(name: str) -> str:
    """The same for narrow columns."""
    return CONTROLS[name].short if name in CONTROLS else name


__all__ = ["CONTROLS", "UNTRAINED", "Control", "in_words", "short"]
