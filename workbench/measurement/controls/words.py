"""What legends and narrow columns call a control; the words themselves are in the file of each control."""

from __future__ import annotations

from workbench.measurement.controls import CONTROLS, SHUFFLED


def in_words(name: str) -> str:
    """What legends call a control; one that is not in `CONTROLS` is called by its name."""
    if name == SHUFFLED:
        return "models of shuffled weights"
    return CONTROLS[name].words if name in CONTROLS else name


def short(name: str) -> str:
    """What narrow columns call a control; one that is not in `CONTROLS` is called by its name."""
    return CONTROLS[name].short if name in CONTROLS else name
