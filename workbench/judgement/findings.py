"""What was found of a run, or of several seeds: fields with their counts, of which `words.findings` makes sentences."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from workbench.interventions import Head
from workbench.judgement.against_controls import Compared, Stored
from workbench.judgement.claim import JudgedClaim
from workbench.judgement.entropy import Spread
from workbench.judgement.extremes import Extreme

CLEAR_P = 0.05  # of a difference between groups of seeds, after Holm


class Share(Stored):
    """A share with its interval over n examples or seeds; NaN where it is not known."""

    value: float
    low: float
    high: float
    n: int

    def above(self, other: Share) -> bool:
        """Whether its whole interval lies above another's."""
        return self.low > other.high


class Difference(NamedTuple):
    """A difference between two groups of seeds: of what, how much (with its interval), and its p after Holm."""

    first: str
    second: str
    what: str
    units: str
    value: float
    low: float
    high: float
    p: float

    @property
    def clear(self) -> bool:
        return self.p < CLEAR_P


class MeasuredOn(Stored):
    """What was measured on.

    Attributes:
        drawn, distinct: how many sequences, of several runs of each.
        kind: `held-out`, or `given` where nobody here knows what the model was trained on.
        spread: what the test conditions range over: (their name, from, to); None where they are all the same.
        trained: what that was in training, from and to, where the test goes beyond it.
    """

    drawn: int
    distinct: int
    kind: str
    spread: tuple[str, int, int] | None = None
    trained: tuple[int, int] | None = None


class AnswerRates(Stored):
    """How often a model is right, and the groups of answers in which it is least so.

    Attributes:
        position, sequence: of all scored positions, and of whole sequences; None of these in running text, where
            nothing is asked.
        worst: the groups of answers that are least right and not told apart; None where that may be any of them.
        groups: the first and the last of all groups, `2 to 30`, or how many there are where they are names.
    """

    position: Share
    sequence: Share | None
    worst: Extreme | None = None
    groups: str = ""


class GoldMass(Stored):
    """How much of its attention a head lays on the task's true edges, beside those of other examples."""

    heads: tuple[Head, ...]
    mass: Share
    control: Compared | None = None


class Focus(Stored):
    """The head in focus, and what removing it costs.

    Attributes:
        head: the one with the most mass on true edges, on other data, or that was given.
        no_more_than: controls under which as much mass lies there.
        removed: head -> the share of right answers that change without it: of this head, and of the costliest other.
        needed: the head that clearly more right answers need than this one, or this one.
    """

    head: Head
    no_more_than: tuple[str, ...] = ()
    removed: tuple[tuple[Head, Share], ...] = ()
    needed: Head | None = None


class Findings(Stored):
    """What was found of a run, or of several seeds of one config.

    Attributes:
        name: the run's, or the group's.
        samples: of each run.
        answers, gold, spread, focus: see there; None where not measured, `focus` of several seeds too.
        claims: each claim that was measured, judged.
    """

    name: str
    samples: tuple[MeasuredOn, ...] = Field(min_length=1)
    answers: AnswerRates | None = None
    claims: tuple[JudgedClaim, ...] = ()
    gold: GoldMass | None = None
    spread: Spread | None = None
    focus: Focus | None = None
