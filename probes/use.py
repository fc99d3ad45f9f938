"""What a causal test found: what became of the answers, and whether that says that the model uses the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from workbench.instruments import Measurement

CHANGED, MOVED, FOLLOWED = "answers changed", "probability moved", "answers that follow"
OUTCOMES = (CHANGED, MOVED, FOLLOWED)
SAME, OTHER_DIRECTIONS = "same label", "other directions"
EDITS = {
    "interchange": ("another label", SAME, OTHER_DIRECTIONS),
    "steer": ("another label", OTHER_DIRECTIONS),
    "erase": ("erased", OTHER_DIRECTIONS),
}
AT_LEAST = 0.01  # of the answers, or of the probability: less than that is no use


@dataclass(frozen=True)
class Use:
    """What a causal test of a label found at one point and place.

    Attributes:
        effect: what became of the answers, dims `edit`, `outcome`: a share of the answers at and after what is edited.
            `answers changed`: whose likeliest class became another; `probability moved`: total variation distance;
            `answers that follow`: of those at an edited position, which became what the model says at the other's.
        excess: the first edit less each other, dims `edit`, `outcome`, paired over sequences.
        rank: how many directions the label has there.
        untested: why nothing could be edited, if that is so.
    """

    effect: Measurement
    excess: Measurement
    rank: int
    untested: str | None = None

    @property
    def used(self) -> bool | None:
        """Whether the model uses the label there; None if that cannot be told.

        It does where the edit does more to the answers, by any of the outcomes, than each edit that should do nothing:
        by a point at least, and by an interval that leaves out 0. It does not where the edit can do no more than a
        point, or no more than a point more than the same edit with an input of the same label. Where other directions
        do as much, the model may still use these: that is not told.
        """
        if self.untested is not None:
            return None
        told = [
            self._told(outcome) for outcome in OUTCOMES if not np.isnan(self.effect.select(outcome=outcome).values[0])
        ]
        return True if True in told else None if None in told or not told else False

    def _told(self, outcome: str) -> bool | None:
        effect, excess = self.effect.select(outcome=outcome), self.excess.select(outcome=outcome)
        assert effect.high is not None and excess.low is not None and excess.high is not None
        known = ~np.isnan(excess.low)
        if known.any() and (excess.low[known] > 0).all() and (excess.values[known] >= AT_LEAST).all():
            return True
        alike = [high for edit, high in zip(excess.coords["edit"], excess.high, strict=True) if edit == SAME]
        return False if min([effect.high[0], *alike], default=np.nan) < AT_LEAST else None

    def verdict(self) -> str:
        """The same in words, with the numbers."""
        if self.untested is not None:
            return f"not tested: {self.untested}"
        numbers = []
        for outcome in (CHANGED, MOVED):
            found = self.effect.select(outcome=outcome)
            (_, own), *others = zip(found.coords["edit"], found.values, strict=True)
            beside = ", ".join(f"{edit} {value:.1%}" for edit, value in others)
            numbers.append(f"{outcome} {own:.1%} ({beside})")
        follow = self.effect.select(outcome=FOLLOWED).values[0]
        if not np.isnan(follow):
            numbers.append(f"{follow:.1%} of the answers there became the other's")
        said = {True: "used", False: "not used", None: "not told whether used"}[self.used]
        return f"{said}: {'; '.join(numbers)}"


def untested(edits: Sequence[str], settings: dict[str, Any], why: str) -> Use:
    nothing = np.full((len(edits), len(OUTCOMES), 1), np.nan)
    found = measured(nothing, edits, 0, {**settings, "directions": 0})
    return replace(found, untested=why)


def measured(values: np.ndarray, edits: Sequence[str], rank: int, settings: dict[str, Any]) -> Use:
    coords = {"edit": edits, "outcome": OUTCOMES, "example": range(values.shape[-1])}
    effect = Measurement(
        name=f"Answers after an edit: {settings['label'].replace('_', ' ')}",
        values=values,
        dims=("edit", "outcome", "example"),
        coords=coords,
        units="share",
        settings=settings,
        caption="What becomes of the answers at and after the edited positions when the model computes on from the "
        "edit. Beside it: the same edit with an input of the same label, and along as many directions that do not hold "
        "the label. n counts sequences.",
    )
    excess = Measurement(
        name=f"{effect.name}, beyond the same edit elsewhere",
        values=values[:1] - values[1:],
        dims=effect.dims,
        coords={**coords, "edit": edits[1:]},
        units="difference of shares",
        settings=settings,
        caption="How much more than the edits that should do nothing; pairs of the same sequence.",
    )
    return Use(effect.mean(), excess.mean(), rank)
