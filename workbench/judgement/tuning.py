"""How the settings of groups that are compared came about: fields of a study's result."""

from __future__ import annotations

from enum import StrEnum

from workbench.judgement.against_controls import Stored

AS_PLANNED = "as planned"


class Tuning(StrEnum):
    """How the settings of the groups that were asked came about."""

    PLANNED = "asked as planned"
    BEFORE = "every group was tuned before it was asked, on seeds of its own"
    ON_FAILURE = "tuned on failure only, to be trained again"
    NEVER = "not tuned before it was asked, to be trained again"

    @property
    def stale(self) -> bool:
        """Whether the groups were not tuned alike, and are to be trained again."""
        return self in (Tuning.ON_FAILURE, Tuning.NEVER)


class Tried(Stored):
    """The settings that were tried for a group.

    Attributes:
        group, quantity: what they were tried for: the quantity where it is read, as "accuracy, length 18".
        settings: all of them.
        chosen: the one with the best mean.
        means: of each setting, over the seeds on which they were chosen; empty where they were not kept.
        units: of the means.
    """

    group: str
    quantity: str
    settings: tuple[str, ...]
    chosen: str
    means: tuple[float, ...] = ()
    units: str = ""

    def alone(self, setting: str) -> str:
        """One of the settings without what the group's name says already."""
        of_group = self.group.split(", ")
        return ", ".join(part for part in setting.split(", ") if part not in of_group)
