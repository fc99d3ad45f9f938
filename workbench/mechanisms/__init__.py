"""Claims about how a task is solved. A new mechanism is one file and one entry in `MECHANISMS`."""

from __future__ import annotations

from typing import Protocol

from workbench.capture import Capture, Subject
from workbench.instruments.measurement import Measurement
from workbench.mechanisms import chain_following, copy, minimum, successor


class Mechanism(Protocol):
    """What every mechanism module offers; the first line of its docstring is the claim.

    The control of every score is the same score on `workbench.instruments.mismatched(capture, generator)`.
    """

    __doc__: str | None

    @property
    def CONTROLS(self) -> tuple[str, ...]:  # noqa: N802 (a module's constant)
        """The nulls beside its score, as those of an instrument."""

    def why_not(self, subject: Subject) -> str | None:
        """Why the claim cannot be tested on this model, in one line; None if it can."""

    def needs(self, subject: Subject) -> list[str]:
        """The hook names to capture."""

    def score(self, capture: Capture) -> Measurement:
        """How often the claim holds: shares per example, with the last dim `example`."""


MECHANISMS: dict[str, Mechanism] = {
    "copy": copy,
    "minimum": minimum,
    "successor": successor,
    "chain_following": chain_following,
}

__all__ = ["MECHANISMS", "Mechanism"]
