"""Is a label used? What a causal test of it shows, beside its control edits and the same test in uninformed models.

The edit's *lead* is by how much more of the answers it changes than the control edit that changes most, by each of the
outcomes; below zero it is none. Two things are asked of it. Within the model: the whole interval of the paired
difference lies at least `AT_LEAST` above zero, widened for the outcomes and points looked at (Bonferroni). Against
uninformed models, by the one rule (`judgement.against_controls`): one further re-initialised model, and one further
with shuffled weights, would hardly lead by as much, of as many sequences.

Held against these models is the lead and not the effect of the edit: in untrained models the answers nearly tie, and
any edit of this size changes many of them (four in five, in a small sorter), along the label's directions or others.
And each null model is searched as this one is: what counts is its largest lead at any point, by any outcome. That
corrects for all points and outcomes at once. A share of 5 % for each of them does not: of five null models without any
lead, a further one is not known to have none more surely than p = 0.015, and twelve looks would ask for 0.004.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
from scipy import stats

from workbench.judgement.against_controls import Against, Compared, Stored, Tally, compare_counts
from workbench.judgement.decodable import Decodable, Worth
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT, LEVEL

CHANGED, MOVED, FOLLOWED = "answers changed", "probability moved", "answers that follow"
OUTCOMES = (CHANGED, MOVED, FOLLOWED)
SAME, OTHER_DIRECTIONS = "same label", "other directions"
SIZES = DRAWN, ADDED = ("before scaling", "as edited")
FRESH, SHUFFLED_WEIGHTS = "re-initialised", "shuffled weights"
NULL_KINDS = (FRESH, SHUFFLED_WEIGHTS)
TWICE = 2.0  # a control edit that was enlarged more than this does not show what one of its own size would do
AT_LEAST = 0.01  # of the answers, or of the probability: a label that changes fewer is not called used


class Conclusion(StrEnum):
    """What a causal test concludes."""

    USED = "used"
    UNUSED = "not used"
    LIKE_CONTROLS = "like its control edits"
    LIKE_NULLS = "like uninformed models"
    TOKEN_AND_POSITION = "explained by token and position"
    NOT_COMPARED = "not compared with uninformed models"
    NO_OTHERS = "no other directions"
    TOO_FEW = "too few sequences"
    UNTESTED = "not tested"


class Untested(StrEnum):
    """Why nothing could be edited."""

    NO_PLACE = "no such place"
    NO_DIRECTION = "no direction"
    NO_PARTNER = "no partner"


class EditOutcome(Stored):
    """One outcome of an edit.

    Attributes:
        name: one of `OUTCOMES`.
        effect: what the edit does, a share of the answers or of their probability.
        controls: what each control edit does.
        lead: the effect less that of the control edit that does most.
        low: the least that the lead over a control edit may be, at the level corrected for outcomes and points.
        n: sequences.
    """

    name: str
    effect: float
    controls: dict[str, float]
    lead: float
    low: float
    n: int
    nulls: tuple[Compared, ...] = ()

    @property
    def beyond_controls(self) -> bool:
        """Whether the edit does at least a percentage point more than every control edit."""
        return self.low > AT_LEAST

    @property
    def beyond_nulls(self) -> bool:
        """Whether it was held against uninformed models of every kind, and leads by more."""
        return bool(self.nulls) and all(null.result is Against.BEYOND for null in self.nulls)

    @property
    def tally(self) -> Tally:
        """The lead as a count of sequences, as the one rule takes it."""
        return Tally(max(0.0, self.lead) * self.n, self.n)


class Used(Stored):
    """What a causal test of a label at one point and place shows.

    Attributes:
        conclusion: the verdict.
        outcomes: those that were measured.
        n: sequences edited.
        points: number of points at which this label and place were tested.
        rank, beside: numbers of directions that hold the label, and of others.
        decodable: what a probe's accuracy there is worth, if that is known.
        untested: why nothing could be edited.
    """

    conclusion: Conclusion
    outcomes: tuple[EditOutcome, ...] = ()
    n: int = 0
    points: int = 1
    rank: int = 0
    beside: int = 0
    decodable: Decodable | None = None
    untested: Untested | None = None

    @property
    def used(self) -> bool | None:
        """Whether the model uses the label there; None if that is undecided."""
        return {Conclusion.USED: True, Conclusion.UNUSED: False}.get(self.conclusion)

    @property
    def clearest(self) -> EditOutcome | None:
        """The outcome that leads its control edits, and uninformed models, most clearly; else the answers changed."""
        if not any(outcome.beyond_controls for outcome in self.outcomes):
            return next(iter(self.outcomes), None)
        return max(self.outcomes, key=lambda each: (each.beyond_nulls, each.beyond_controls, each.low))


def judge(
    effect: Measurement,
    excess: Measurement,
    sizes: Measurement,
    *,
    rank: int,
    beside: int,
    points: int = 1,
    decodable: Decodable | None = None,
    nulls: Measurement | None = None,
    untested: Untested | None = None,
) -> Used:
    """Decide whether a label is used.

    Used: by any outcome, the edit leads every control edit by at least a percentage point at the low end of its
    corrected interval, and by more than a further uninformed model of either kind would. Not used: the edit does at
    most a point, or at most a point more than the same edit with an input of the same label, if that was not enlarged
    much to be as large. Where other directions do as much, the model may still use the label's.

    Args:
        effect: what each edit does, dims `edit`, `outcome`; the first edit is the label's own.
        excess: the effect of the edit less that of each control edit, same dims.
        sizes: mean norm of what an edit adds to a row, dims `edit`, `size`.
        rank, beside, points, decodable, untested: see `Used`.
        nulls: the lead in uninformed models, dims `kind`, `null`, `point`, `outcome`, at every point that was looked
            at, with the sequences as its n; 0 where nothing could be edited. None if there are none.
    """
    if untested is not None:
        return Used(conclusion=Conclusion.UNTESTED, points=points, decodable=decodable, untested=untested)
    assert effect.n is not None
    outcomes = _outcomes(effect, excess, points)
    if nulls is not None:
        tallies = _tallies(nulls)  # in them is all that was looked at
        for i, outcome in enumerate(outcomes):
            if outcome.beyond_controls:
                compared = tuple(compare_counts(outcome.tally, null, kind) for kind, null in tallies.items())
                outcomes[i] = outcome.model_copy(update={"nulls": compared})
    n, counts = int(effect.n[0, 0]), {"points": points, "rank": rank, "beside": beside}
    used = Used(conclusion=Conclusion.TOO_FEW, outcomes=outcomes, n=n, decodable=decodable, **counts)
    return used.model_copy(update={"conclusion": _conclusion(used, effect, excess, sizes)})


def _outcomes(effect: Measurement, excess: Measurement, points: int) -> list[EditOutcome]:
    """The outcomes that were measured beside at least one control edit."""
    assert effect.n is not None and excess.low is not None and excess.n is not None
    # Lower bounds `[edit, outcome]` at the level 1 − 0.05 / (outcomes · points) (Bonferroni): an interval is widened by
    # the same factor as Student's for its number of sequences.
    comparisons = points * max(1, int((~np.isnan(excess.values)).any(0).sum()))
    freedom, tail = np.maximum(excess.n - 1, 1), (1 - LEVEL) / 2
    growth = stats.t.ppf(1 - tail / comparisons, freedom) / stats.t.ppf(1 - tail, freedom)
    low, controls = excess.values - (excess.values - excess.low) * growth, list(excess.coords["edit"])
    return [
        EditOutcome(
            name=str(name),
            effect=float(effect.values[0, i]),
            controls={
                edit: float(v) for edit, v in zip(controls, effect.values[1:, i], strict=True) if not np.isnan(v)
            },
            lead=float(np.nanmin(excess.values[:, i])),
            low=float(np.nanmin(low[:, i])) if not np.isnan(low[:, i]).all() else float("nan"),
            n=int(effect.n[0, i]),
        )
        for i, name in enumerate(effect.coords["outcome"])
        if not np.isnan(excess.values[:, i]).all()
    ]


def _tallies(nulls: Measurement) -> dict[str, list[Tally]]:
    """Kind of uninformed model -> the largest lead of each, at any point and by any outcome, as a count."""
    assert nulls.dims == ("kind", "null", "point", "outcome") and nulls.n is not None
    shape = (*nulls.values.shape[:2], -1)
    leads, n = nulls.values.reshape(shape), np.asarray(nulls.n).reshape(shape)
    most = leads.argmax(-1)[..., None]
    largest, of = (np.take_along_axis(values, most, -1)[..., 0] for values in (leads, n))
    return {
        str(kind): [Tally(float(rate * m), int(m)) for rate, m in zip(largest[i], of[i], strict=True)]
        for i, kind in enumerate(nulls.coords["kind"])
    }


def _conclusion(used: Used, effect: Measurement, excess: Measurement, sizes: Measurement) -> Conclusion:
    """The verdict, from the outcomes."""
    if used.n < LEAST_FOR_A_VERDICT:
        return Conclusion.TOO_FEW
    beyond = [outcome for outcome in used.outcomes if outcome.beyond_controls]
    if not beyond:  # the edit does no more than its controls: the label is not used if no outcome is large enough
        assert effect.high is not None and excess.high is not None
        upper_bounds = [effect.high[0]]
        if SAME in excess.coords["edit"]:
            drawn, added = (float(sizes.select(edit=SAME, size=size).values) for size in SIZES)
            if drawn and added / drawn <= TWICE:  # it was enlarged little to the size of the label's edit
                upper_bounds.append(excess.high[list(excess.coords["edit"]).index(SAME)])
        known = ~np.isnan(effect.values[0])
        unused = (np.fmin.reduce(upper_bounds) < AT_LEAST)[known]
        return Conclusion.UNUSED if unused.size and unused.all() else Conclusion.LIKE_CONTROLS
    if used.decodable is not None and used.decodable.worth is Worth.TOKEN_AND_POSITION:
        return Conclusion.TOKEN_AND_POSITION
    if not used.beside:
        return Conclusion.NO_OTHERS
    if any(outcome.beyond_nulls for outcome in beyond):
        return Conclusion.USED
    results = {null.result for outcome in beyond for null in outcome.nulls}
    return Conclusion.LIKE_NULLS if Against.NO_MORE in results else Conclusion.NOT_COMPARED
