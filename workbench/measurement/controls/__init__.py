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


def control_in_words(name: str, *, short: bool = False) -> str:
    """What legends call a control, or narrow columns; one that is not in `CONTROLS` is called by its name."""
    if name in CONTROLS:
        return CONTROLS[name].short if short else CONTROLS[name].words
    return "models of shuffled weights" if name == SHUFFLED and not short else name
