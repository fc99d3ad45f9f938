"""What a causal test found: what became of the answers, and whether that says that the model uses the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy import stats

from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT, LEVEL
from workbench.probes.judgement import Judgement, Worth
from workbench.probes.trial import Edited

CHANGED, MOVED, FOLLOWED = "answers changed", "probability moved", "answers that follow"
OUTCOMES = (CHANGED, MOVED, FOLLOWED)
SAME, OTHER_DIRECTIONS = "same label", "other directions"
EDITS = {
    "interchange": ("another label", SAME, OTHER_DIRECTIONS),
    "steer": ("another label", OTHER_DIRECTIONS),
    "erase": ("erased", OTHER_DIRECTIONS),
}
SIZES = DRAWN, ADDED = ("before scaling", "as edited")
TWICE = 2.0  # an edit that was made more than so many times as large says no longer what one of its own size does
AT_LEAST = 0.01  # of the answers, or of the probability: less than one answer in a hundred is no use worth the word


class Told(Enum):
    """What a causal test says, with the words that its verdict begins with."""

    USED = "used"
    UNUSED = "not used"
    LIKE_CONTROLS = "not told whether used"
    LIKE_NULLS = "not told whether used, models that know nothing do nearly as much"
    TOKEN_AND_POSITION = "not told whether used, what is read there is no more than token and position tell"
    NO_NULLS = "not told whether used, it was not held against models that know nothing"
    NO_OTHERS = "not told whether used, no other direction is left to compare with"
    TOO_FEW = "too few sequences to tell whether used"
    UNTESTED = "not tested"


@dataclass(frozen=True)
class Use:
    """What a causal test of a label found at one point and place.

    Attributes:
        effect: what became of the answers, dims `edit`, `outcome`: a share of the answers at and after what is edited.
            `answers changed`: whose likeliest class became another; `probability moved`: total variation distance;
            `answers that follow`: of those at an edited position, which became what the model says at the other's, and
            were not.
        excess: the first edit less each other, dims `edit`, `outcome`, paired over sequences; intervals of 95 %.
        sizes: mean norm of what an edit adds to a row, dims `edit`, `size`.
        rank: how many directions the label has there.
        beside: how many other directions the residual has.
        judged: what a probe's accuracy there is worth, if that is known.
        compared: at how many points this label and place were tested; the verdict is corrected for it.
        nulls: the excess in models that know nothing, dims `null`, `kind`, `edit`, `outcome`; None where none was run.
        untested: why nothing could be edited, if that is so.
    """

    effect: Measurement
    excess: Measurement
    sizes: Measurement
    rank: int
    beside: int = 0
    judged: Judgement | None = None
    compared: int = 1
    nulls: Measurement | None = None
    untested: str | None = None

    @property
    def used(self) -> bool | None:
        """Whether the model uses the label there; None if that cannot be told."""
        return {Told.USED: True, Told.UNUSED: False}.get(self.told)

    @property
    def told(self) -> Told:
        """What the test says.

        Used: the edit does more to the answers, by any of the outcomes, than each edit of its size that should do
        nothing, by at least a point at the low end of the interval of the excess, and by more than a model that knows
        nothing would (see `null_reach`). The interval is widened for the outcomes and points that were looked at
        (Bonferroni). Not used: the edit can do no more than a point, or no more than a point more than the same edit
        with an input of the same label, if that had not to be made much larger for it. Where other directions do as
        much, the model may still use these.
        """
        if self.untested is not None:
            return Told.UNTESTED
        if self.enough < LEAST_FOR_A_VERDICT:
            return Told.TOO_FEW
        if not self.beyond_controls.any():
            return self._without_excess()
        if self.judged is not None and self.judged.worth is Worth.TOKEN_AND_POSITION:
            return Told.TOKEN_AND_POSITION
        if not self.beside:
            return Told.NO_OTHERS
        if self.nulls is None:
            return Told.NO_NULLS
        return Told.USED if (self._above(self.null_reach) & self.beyond_controls).any() else Told.LIKE_NULLS

    @property
    def enough(self) -> int:
        """How many sequences the effect is of."""
        assert self.effect.n is not None
        return int(self.effect.n[0, 0])

    @property
    def beyond_controls(self) -> np.ndarray:
        """`[outcome]`: whether the edit does at least a point more than every edit beside it."""
        return self._above(np.full(self.excess.values.shape, AT_LEAST))

    @property
    def null_reach(self) -> np.ndarray:
        """`[edit, outcome]`: the excess that models that know nothing have, and a further one would stay below.

        Of the draws of each kind the largest, or the end of Student's interval of prediction, mean +
        t(0.975)·s·√(1 + 1/k), whichever is more; over the kinds the largest.
        """
        assert self.nulls is not None
        draws = np.nan_to_num(self.nulls.values)  # nothing followed, or nothing could be edited: no excess
        k = draws.shape[0]
        reach = stats.t.ppf(0.5 + LEVEL / 2, k - 1) * draws.std(0, ddof=1) * np.sqrt(1 + 1 / k)
        most: np.ndarray = np.maximum(draws.mean(0) + reach, draws.max(0)).max(0)
        return most

    def _above(self, least: np.ndarray) -> np.ndarray:
        """`[outcome]`: whether the excess over every edit beside lies above these, interval and all."""
        low = self._low()
        known = ~np.isnan(low)
        return known.any(0) & (~known | (low > least)).all(0)

    def _low(self) -> np.ndarray:
        """The low ends of the excess, each interval widened from 0.95 to 1 − 0.05 / (outcomes · points).

        An interval grows on either side as Student's does, for its number of sequences.
        """
        excess = self.excess
        assert excess.low is not None and excess.n is not None
        comparisons = self.compared * max(1, int((~np.isnan(excess.values)).any(0).sum()))
        freedom = np.maximum(excess.n - 1, 1)
        tail = (1 - LEVEL) / 2
        growth = stats.t.ppf(1 - tail / comparisons, freedom) / stats.t.ppf(1 - tail, freedom)
        low: np.ndarray = excess.values - (excess.values - excess.low) * growth
        return low

    def _without_excess(self) -> Told:
        """Whether the edit does too little for use, by every outcome that is known."""
        effect, excess = self.effect, self.excess
        assert effect.high is not None and excess.high is not None
        most = [effect.high[0]]
        if SAME in excess.coords["edit"] and self._scaled(SAME) <= TWICE:
            most.append(excess.high[list(excess.coords["edit"]).index(SAME)])
        known = ~np.isnan(effect.values[0])
        unused = (np.fmin.reduce(most) < AT_LEAST)[known]
        return Told.UNUSED if unused.size and unused.all() else Told.LIKE_CONTROLS

    def _scaled(self, edit: str) -> float:
        """How many times as large an edit was made."""
        drawn, added = (float(self.sizes.select(edit=edit, size=size).values) for size in SIZES)
        return added / drawn if drawn else float("inf")

    def verdict(self) -> str:
        """The same in words, with the numbers."""
        if self.untested is not None:
            return f"{Told.UNTESTED.value}: {self.untested}"
        numbers = [self._beside(self.effect.select(outcome=outcome), "{:.1%}") for outcome in (CHANGED, MOVED)]
        numbers[:2] = [f"{outcome} {said}" for outcome, said in zip((CHANGED, MOVED), numbers, strict=True)]
        follow = self.effect.select(outcome=FOLLOWED).values[0]
        if not np.isnan(follow):
            numbers.append(f"{follow:.1%} of the answers there became the other's")
        numbers.append(f"mean size of the edit {self._beside(self.sizes.select(size=ADDED), '{:.3g}')}")
        if self.nulls is not None:
            numbers.append(self._beside_nulls())
        few = f" ({self.enough} of at least {LEAST_FOR_A_VERDICT})" if self.told is Told.TOO_FEW else ""
        return f"{self.told.value}{few}: {'; '.join(numbers)}{self._decoded()}"

    def _beside_nulls(self) -> str:
        """By which outcome it does most beyond the edits beside it, and what models that know nothing do by that."""
        reach = self.null_reach
        margin = np.where(self.beyond_controls, np.fmin.reduce(self._low() - reach), -np.inf)
        outcome = int(margin.argmax())
        edit = int(np.nan_to_num(self._low() - reach, nan=np.inf)[:, outcome].argmin())
        own, beside = self.excess.values[edit, outcome], self.excess.coords["edit"][edit]
        return (
            f"by {OUTCOMES[outcome]}, {own:.1%} beyond {beside}, "
            f"where models that know nothing reach {reach[edit, outcome]:.1%}"
        )

    def _decoded(self) -> str:
        """Whether the label can be read there at all, where that is known."""
        if self.judged is None or self.judged.worth is Worth.DECODABLE:
            return "" if self.judged is None else "; decodable there"
        return f"; but a probe does not say that it can be read there ({self.judged})"

    @staticmethod
    def _beside(found: Measurement, unit: str) -> str:
        (_, own), *others = zip(found.coords["edit"], found.values, strict=True)
        return f"{unit.format(own)} ({', '.join(f'{edit} {unit.format(value)}' for edit, value in others)})"


def untested(edits: Sequence[str], settings: dict[str, Any], why: str) -> Use:
    """A test that could not be made."""
    nothing = Edited(np.full((len(edits), len(OUTCOMES), 1), np.nan), np.full((len(edits), len(SIZES), 1), np.nan))
    return replace(measured(nothing, edits, 0, 0, {**settings, "directions": 0}), untested=why)


def measured(edited: Edited, edits: Sequence[str], rank: int, beside: int, settings: dict[str, Any]) -> Use:
    """What edits did, as means over sequences with their intervals."""
    values = edited.outcomes
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
        "the label; each row of these is scaled to the size of the label's own edit. n counts sequences.",
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
    sizes = Measurement(
        name=f"Size of an edit: {settings['label'].replace('_', ' ')}",
        values=edited.sizes,
        dims=("edit", "size", "example"),
        coords={**coords, "size": SIZES},
        units="norm",
        settings=settings,
        caption="Mean norm of what an edit adds to a row. n counts sequences.",
    )
    return Use(effect.mean(), excess.mean(), sizes.mean(), rank, beside)
