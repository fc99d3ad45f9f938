"""Controls: what a measured number is compared with. A new control is one file and one entry in `CONTROLS`."""

from __future__ import annotations

from workbench.measurement.controls import mismatched, random_graph, untrained
from workbench.measurement.controls.base import Control

UNTRAINED = "untrained"
"""The control that is measured on several re-initialised models, and has their range."""

SHUFFLED = "shuffled"
"""The other kind of uninformed model, which is edited beside these: the run's own weights shuffled."""

CONTROLS: dict[str, Control] = {
    "mismatched": mismatched.CONTROL,
    "random_graph": random_graph.CONTROL,
    UNTRAINED: untrained.CONTROL,
}


def control_in_words(name: str) -> str:
    """What legends call a control; one that is not in `CONTROLS` is called by its name."""
    if name == SHUFFLED:
        return "models of shuffled weights"
    return CONTROLS[name].words if name in CONTROLS else name


def control_in_short(name: str) -> str:
    """What narrow columns call a control; one that is not in `CONTROLS` is called by its name."""
    return CONTROLS[name].short if name in CONTROLS else name
