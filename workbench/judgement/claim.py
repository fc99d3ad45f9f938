"""A judged claim: how often it holds at a place, beside which controls, and whether answers need it; fields alone.

`judgement.judge` decides them, `judgement.words` makes sentences of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from math import isnan

from pydantic import Field

from workbench.judgement.against_controls import WORST_FIRST, Against, Compared, Stored

ELSEWHERE = "elsewhere"  # the edit that should not matter


class Often(StrEnum):
    """How often a claim holds, in a word: the first thing that is said of it."""

    ALWAYS = "always"
    MOSTLY = "mostly"
    SOMETIMES = "sometimes"
    RARELY = "rarely"
    NOT_FOUND = "not found"
    UNKNOWN = "not known"

    @staticmethod
    def of(rate: float) -> Often:
        return next((often for often, least in LEAST if rate >= least), Often.UNKNOWN)

    @staticmethod
    def on_one_input(scores: Sequence[float]) -> Often:
        """Of a single input, from the scores at all places: one input shows no more than always, sometimes or never."""
        known = [score for score in scores if not isnan(score)]
        if not known:
            return Often.UNKNOWN
        return Often.ALWAYS if min(known) == 1 else Often.NOT_FOUND if max(known) == 0 else Often.SOMETIMES


LEAST = (
    (Often.ALWAYS, 0.99),
    (Often.MOSTLY, 0.7),
    (Often.SOMETIMES, 0.3),
    (Often.RARELY, 0.05),
    (Often.NOT_FOUND, 0.0),
)
"""From which share of cases on a word is used."""


class Need(StrEnum):
    """What a causal test says of whether the answers need what is claimed."""

    AS_CLAIMED = "needed"
    LOST = "needed, though not clearly as claimed"
    NOT_NEEDED = "not needed"
    IDLE = "the edit changes few answers, another does many"
    AS_ELSEWHERE = "no more than the same edit elsewhere"
    AS_NULLS = "no more than in uninformed models"
    NOT_COMPARED = "not compared: too few answers elsewhere or of uninformed models"
    NOT_SETTLED = "not settled"
    TOO_FEW = "too few right answers to edit"
    UNTESTED = "not tested"


class EditCounts(Stored):
    """What one edit did to right answers.

    Attributes:
        edit: its name in the causal test.
        n: right answers that were edited.
        changed, as_claimed: of these, how many became another answer, and the one that the claim predicts.
        low, high: the 95 % interval of the share that changed.
    """

    edit: str
    n: int = Field(ge=0, le=2**53)
    changed: float = Field(ge=0, allow_inf_nan=False)
    as_claimed: float = Field(ge=0, allow_inf_nan=False)
    low: float
    high: float


class Test(Stored):
    """A causal test at one place.

    Attributes:
        where: where the edit was made, in words; empty where in the whole residual.
        claimed: the edit of what is claimed.
        others: further edits, the one elsewhere among them.
        decided_by: the outcome that `need` rests on.
        nulls: that outcome of the claimed edit beside the same edit in each kind of uninformed model.
    """

    where: str
    claimed: EditCounts
    others: tuple[EditCounts, ...]
    decided_by: str
    nulls: tuple[Compared, ...]

    @property
    def elsewhere(self) -> EditCounts | None:
        return next((edited for edited in self.others if edited.edit == ELSEWHERE and edited.n), None)


def hardest(controls: Iterable[Compared]) -> Compared | None:
    """The control that is hardest to exceed: by the result first, then by its rate; None of none."""
    return max(
        controls,
        key=lambda control: (-WORST_FIRST.index(control.result), control.rate if control.n else -1.0),
        default=None,
    )


class NeededSet(Stored):
    """The smallest set of heads whose edit changes nearly as many answers as in every head, by hop.

    Attributes:
        heads: (layer, head) of each; empty where the edit in every head changes too few answers at every hop.
        hops: the hops that could be tested, of a test by hop; empty of one without.
        everywhere, in_set: the share of right answers that change at each of them, with the edit in every head and in
            the set; a test without hops has one of each, and `in_set` is empty without a set.
    """

    heads: tuple[tuple[int, int], ...]
    hops: tuple[int, ...]
    everywhere: tuple[float, ...]
    in_set: tuple[float, ...]


class Judgement(Stored):
    """A claim judged at one place.

    Attributes:
        claim, title: its name among the mechanisms, and in words.
        place: dim -> label, of where it is read; empty where there is one place only.
        rate, low, high, n: how often it holds, with its 95 % interval over n examples, or seeds.
        often: the same in a word.
        controls: its rate beside that of each control.
        need: whether answers need what is claimed.
        test: the numbers of the causal test; None where none was made here.
        of_heads: whether the claim is about single heads.
        seeds: of several seeds, the judgement of each.
    """

    claim: str
    title: str
    place: dict[str, int | str]
    rate: float
    low: float
    high: float
    n: int
    often: Often
    controls: tuple[Compared, ...]
    need: Need = Need.UNTESTED
    test: Test | None = None
    of_heads: bool = False
    seeds: tuple[Judgement, ...] = ()

    @property
    def strongest(self) -> Compared | None:
        """The control that is hardest to exceed: by the result first, then by its rate; None without any."""
        return hardest(self.controls)

    @property
    def against(self) -> Against | None:
        """How its rate compares with its controls together; None without any. Of seeds: beyond only if each is."""
        every = [seed.against for seed in self.seeds] or [control.result for control in self.controls]
        if not every or None in every:
            return None
        return next(result for result in WORST_FIRST if result in every)

    @property
    def found(self) -> bool:
        """Whether it is there at all: it holds at least rarely."""
        return self.often not in (Often.NOT_FOUND, Often.UNKNOWN)

    @property
    def beyond(self) -> bool:
        """Whether it is there, and more often than under its controls."""
        return self.found and self.against is Against.BEYOND

    @property
    def needed(self) -> bool:
        """Whether the answers need it; of seeds, in more than half of them."""
        if self.seeds:
            return 2 * sum(seed.needed for seed in self.seeds) > len(self.seeds)
        return self.need in (Need.AS_CLAIMED, Need.LOST)

    @property
    def tells(self) -> bool:
        """Whether it says something of this model: it is there beyond its controls, or the answers need it."""
        return self.beyond or self.needed


class JudgedClaim(Stored):
    """A claim judged at every place where it is read.

    Attributes:
        places: the judgements, in the order of the places.
        needed_set: of a claim about single heads, the smallest set of heads whose edit loses the answers.
    """

    places: tuple[Judgement, ...] = Field(min_length=1)
    needed_set: NeededSet | None = None

    @property
    def claim(self) -> str:
        return self.places[0].claim

    @property
    def title(self) -> str:
        return self.places[0].title

    @property
    def alike(self) -> list[tuple[Judgement, ...]]:
        """The places with the same result together: as often in a word, the same beside controls, needed alike."""
        groups: dict[tuple[object, ...], list[Judgement]] = {}
        for judgement in self.places:
            decided_by = None if judgement.test is None else judgement.test.decided_by
            groups.setdefault((judgement.often, judgement.against, judgement.need, decided_by), []).append(judgement)
        return [tuple(group) for group in groups.values()]
