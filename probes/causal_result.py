"""The result of a causal test: how the answers changed, and what that shows (`judgement.used`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from workbench.judgement import used as rule
from workbench.judgement.decodable import Decodable
from workbench.judgement.used import OUTCOMES, SIZES, Untested, Used
from workbench.judgement.words import probes as words
from workbench.measurement import Measurement
from workbench.probes.erase_steer_interchange import Edited


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
        decodable: what a probe's accuracy there is worth, if that is known.
        points: number of points at which this label and place were tested; the verdict is corrected for it.
        nulls: the lead over control edits in re-initialised and shuffled models, dims `kind`, `null`, `point`,
            `outcome`; None where none was run.
        untested: the reason why nothing could be edited, or None.
    """

    effect: Measurement
    excess: Measurement
    sizes: Measurement
    rank: int
    beside: int = 0
    decodable: Decodable | None = None
    points: int = 1
    nulls: Measurement | None = None
    untested: Untested | None = None

    @cached_property
    def judged(self) -> Used:
        """What the test shows."""
        return rule.judge(
            self.effect,
            self.excess,
            self.sizes,
            rank=self.rank,
            beside=self.beside,
            points=self.points,
            decodable=self.decodable,
            nulls=self.nulls,
            untested=self.untested,
        )

    def verdict(self) -> str:
        """What the test shows, in words."""
        return words.used(self.judged)


def untested(edits: Sequence[str], settings: dict[str, Any], why: Untested) -> Use:
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
