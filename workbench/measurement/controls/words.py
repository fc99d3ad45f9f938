"""Words of a control, in legends and in narrow columns; each control's own are in its file."""

from __future__ import annotations

from workbench.measurement.controls import CONTROLS


def in_words(name: str) -> str:
    """What legends call a control; what is not in `CONTROLS` is called by its name."""
    return CONTROLS[name].words if name in CONTROLS else name


def short(name: str) -> str:
    """The same for narrow columns."""
    return CONTROLS[name].short if name in CONTROLS else name
