"""The result of a causal test: how the answers changed, and the verdict whether the model uses the label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy import stats

from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT, LEVEL
from workbench.probes.decoding_verdict import Judgement, Worth
from workbench.probes.erase_steer_interchange import Edited

CHANGED, MOVED, FOLLOWED = "answers changed", "probability moved", "answers that follow"
OUTCOMES = (CHANGED, MOVED, FOLLOWED)
SAYS = (
    "changes {:.1%} of the answers",
    "moves {:.1%} of the answers' probability",
    "turns {:.1%} of the answers into the other input's",
)  # one for each outcome
SAME, OTHER_DIRECTIONS = "same label", "other directions"
EDITS = {
    "interchange": ("another label", SAME, OTHER_DIRECTIONS),
    "steer": ("another label", OTHER_DIRECTIONS),
    "erase": ("erased", OTHER_DIRECTIONS),
}
SIZES = DRAWN, ADDED = ("before scaling", "as edited")
TWICE = 2.0  # a control edit that was enlarged more than this does not show what one of its own size would do
AT_LEAST = 0.01  # of the answers, or of the probability: a label that changes fewer is not called used


class Conclusion(Enum):
    """What a causal test concludes, with the words that begin its verdict."""

    USED = "used"
    UNUSED = "not used"
    LIKE_CONTROLS = "undecided whether used, the control edits do nearly as much"
    LIKE_NULLS = "undecided whether used, the edit does nearly as much in untrained or shuffled models"
    TOKEN_AND_POSITION = "undecided whether used, token and position alone explain what is read there"
    NO_NULLS = "undecided whether used, not compared with untrained and shuffled models"
    NO_OTHERS = "undecided whether used, no other direction is left to compare with"
    TOO_FEW = "undecided whether used, too few sequences"
    UNTESTED = "not tested"


@dataclass(frozen=True)
class Use:
    """The result of a causal test of a label at one point and place.

    Attributes:
        effect: how the answers changed, dims `edit`, `outcome`: a share of the answers at and after the edited
            positions. `answers changed`: whose likeliest class became another; `probability moved`: total variation
            distance; `answers that follow`: of those at an edited position, which became the model's answer at the
            partner's position, and were not before.
        excess: the effect of the edit less that of each control edit, dims `edit`, `outcome`, paired over sequences;
            intervals of 95 %.
        sizes: mean norm of what an edit adds to a row, dims `edit`, `size`.
        rank: number of directions that hold the label.
        beside: number of other directions of the residual.
        judged: what a probe's accuracy there is worth, if that is known.
        compared: number of points at which this label and place were tested; the verdict is corrected for it.
        nulls: the excess in untrained and shuffled models, dims `null`, `kind`, `edit`, `outcome`; None where none was
            run.
        untested: the reason why nothing could be edited, or None.
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
        """Whether the model uses the label there; None if that is undecided."""
        return {Conclusion.USED: True, Conclusion.UNUSED: False}.get(self.conclusion)

    @property
    def conclusion(self) -> Conclusion:
        """What the test concludes.

        Used: by any of the outcomes, the edit does more than each control edit, by at least a percentage point at the
        low end of the interval of the excess, and more than it would in an uninformed model (see `null_reach`). The
        interval is widened for the number of outcomes and points tested (Bonferroni). Not used: the edit does at most
        a point, or at most a point more than the same edit with an input of the same label, if that was not enlarged
        much to be as large. Where other directions do as much, the model may still use the label's.
        """
        if self.untested is not None:
            return Conclusion.UNTESTED
        if self.n_sequences < LEAST_FOR_A_VERDICT:
            return Conclusion.TOO_FEW
        if not self.beyond_controls.any():
            return self._without_excess()
        if self.judged is not None and self.judged.worth is Worth.TOKEN_AND_POSITION:
            return Conclusion.TOKEN_AND_POSITION
        if not self.beside:
            return Conclusion.NO_OTHERS
        if self.nulls is None:
            return Conclusion.NO_NULLS
        return Conclusion.USED if (self._above(self.null_reach) & self.beyond_controls).any() else Conclusion.LIKE_NULLS

    @property
    def n_sequences(self) -> int:
        """The number of sequences behind the effect."""
        assert self.effect.n is not None
        return int(self.effect.n[0, 0])

    @property
    def beyond_controls(self) -> np.ndarray:
        """`[outcome]`: whether the edit does at least a percentage point more than every control edit."""
        return self._above(np.full(self.excess.values.shape, AT_LEAST))

    @property
    def null_reach(self) -> np.ndarray:
        """`[edit, outcome]`: the excess that uninformed models reach, and a further one would stay below.

        For each kind of model: the largest of its k draws, or the upper end of Student's prediction interval, mean +
        t(0.975)·s·√(1 + 1/k), whichever is more. Of the kinds, the largest.
        """
        assert self.nulls is not None
        draws = np.nan_to_num(
            self.nulls.values
        )  # where nothing followed, or nothing could be edited, there is no excess
        k = draws.shape[0]
        reach = stats.t.ppf(0.5 + LEVEL / 2, k - 1) * draws.std(0, ddof=1) * np.sqrt(1 + 1 / k)
        most: np.ndarray = np.maximum(draws.mean(0) + reach, draws.max(0)).max(0)
        return most

    def _above(self, least: np.ndarray) -> np.ndarray:
        """`[outcome]`: whether the whole interval of the excess over every control edit lies above these values."""
        low = self._low()
        known = ~np.isnan(low)
        return known.any(0) & (~known | (low > least)).all(0)

    def _low(self) -> np.ndarray:
        """The lower bounds of the excess, at the level 1 − 0.05 / (outcomes · points) instead of 0.95 (Bonferroni).

        An interval is widened by the same factor as Student's interval for its number of sequences.
        """
        excess = self.excess
        assert excess.low is not None and excess.n is not None
        comparisons = self.compared * max(1, int((~np.isnan(excess.values)).any(0).sum()))
        freedom = np.maximum(excess.n - 1, 1)
        tail = (1 - LEVEL) / 2
        growth = stats.t.ppf(1 - tail / comparisons, freedom) / stats.t.ppf(1 - tail, freedom)
        low: np.ndarray = excess.values - (excess.values - excess.low) * growth
        return low

    def _without_excess(self) -> Conclusion:
        """The conclusion where the edit does no more than its controls: not used if no outcome is large enough."""
        effect, excess = self.effect, self.excess
        assert effect.high is not None and excess.high is not None
        upper_bounds = [effect.high[0]]
        if SAME in excess.coords["edit"] and self._scaled(SAME) <= TWICE:
            upper_bounds.append(excess.high[list(excess.coords["edit"]).index(SAME)])
        known = ~np.isnan(effect.values[0])
        unused = (np.fmin.reduce(upper_bounds) < AT_LEAST)[known]
        return Conclusion.UNUSED if unused.size and unused.all() else Conclusion.LIKE_CONTROLS

    def _scaled(self, edit: str) -> float:
        """The factor by which a control edit was enlarged to the size of the label's edit."""
        drawn, added = (float(self.sizes.select(edit=edit, size=size).values) for size in SIZES)
        return added / drawn if drawn else float("inf")

    def verdict(self) -> str:
        """The conclusion in a sentence, with the numbers of the outcome that shows it most clearly."""
        conclusion = self.conclusion
        if conclusion is Conclusion.UNTESTED:
            return f"{conclusion.value}: {self.untested}"
        few = f" ({self.n_sequences} of at least {LEAST_FOR_A_VERDICT})" if conclusion is Conclusion.TOO_FEW else ""
        return f"{conclusion.value}{few}: {self._numbers()}{self._decoded()}"

    def _numbers(self) -> str:
        """A sentence that compares the edit with its control edits and uninformed models, in the clearest outcome."""
        outcome = self._clearest()
        share, *controls = self.effect.values[:, outcome]
        at_most = f"{np.nanmax(controls):.1%}" if np.isfinite(controls).any() else "an unknown share"
        said = f"the edit {SAYS[outcome].format(share)}, its control edits at most {at_most}"
        if self.nulls is not None:
            reach = np.nanmax(self.null_reach[:, outcome])
            said += f"; in models with untrained or shuffled weights it leads its control edits by at most {reach:.1%}"
        return said

    def _clearest(self) -> int:
        """The outcome that exceeds its control edits, and uninformed models, most clearly; else the answers changed."""
        if not self.beyond_controls.any():
            return OUTCOMES.index(CHANGED)
        beyond = self._low() - (0.0 if self.nulls is None else self.null_reach)
        return int(np.where(self.beyond_controls, np.fmin.reduce(beyond), -np.inf).argmax())

    def _decoded(self) -> str:
        """Whether the label is decodable there, in words; nothing where that is not known."""
        if self.judged is None:
            return ""
        if self.judged.worth is Worth.DECODABLE:
            return "; the label is decodable here"
        return f"; but a probe does not show that it can be read here ({self.judged})"


def untested(edits: Sequence[str], settings: dict[str, Any], why: str) -> Use:
    """The result of a test that could not be made, with the reason why."""
    nothing = Edited(np.full((len(edits), len(OUTCOMES), 1), np.nan), np.full((len(edits), len(SIZES), 1), np.nan))
    return replace(measured(nothing, edits, 0, 0, {**settings, "directions": 0}), untested=why)


def measured(edited: Edited, edits: Sequence[str], rank: int, beside: int, settings: dict[str, Any]) -> Use:
    """The result of a test, as means over sequences with their intervals.

    `edits` are the names of the edit and its control edits; `rank` and `beside` are those of `Use`.
    """
    values, label = edited.outcomes, settings["label"].replace("_", " ")
    coords = {"edit": edits, "outcome": OUTCOMES, "example": range(values.shape[-1])}
    effect = Measurement(
        name=f"Answers after an edit: {label}",
        values=values,
        dims=("edit", "outcome", "example"),
        coords=coords,
        units="share",
        settings=settings,
        caption="How the answers at and after the edited positions change when the model computes on from the edit. "
        "Control edits: with an input of the same label, and along equally many directions without the label, "
        "each scaled to the size of the label's own edit.",
    )
    excess = Measurement(
        name=f"{effect.name}, beyond the control edits",
        values=values[:1] - values[1:],
        dims=effect.dims,
        coords={**coords, "edit": edits[1:]},
        units="difference of shares",
        settings=settings,
        caption="How much more than the control edits, which should do nothing; differences within each sequence.",
    )
    sizes = Measurement(
        name=f"Size of an edit: {label}",
        values=edited.sizes,
        dims=("edit", "size", "example"),
        coords={**coords, "size": SIZES},
        units="norm",
        settings=settings,
        caption="Mean norm of what an edit adds to a row.",
    )
    return Use(effect.mean(), excess.mean(), sizes.mean(), rank, beside)
