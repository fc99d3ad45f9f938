"""Is a label decodable? What a probe's accuracy is worth beside its baselines, and how selective the probe is.

A probe reads vectors that hold the token and the position, so whatever these two decide together can be read, however
little the model computed. Two baselines of different families stand for that: a probe that adds what token and position
tell, and a lookup of their pairs, which knows any function of both but needs to have seen each pair. Where pairs
outnumber the rows that are fitted, there is no lookup, and token and position together cannot be ruled out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from pydantic import Field

from workbench.judgement.against_controls import Stored
from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.measurement import SEED

TRAINED, UNTRAINED, TOKEN = "trained", "re-initialised model", "current token"
ADDED, PAIRS = "token and position, added", "token-position pairs"
SHUFFLED, FREQUENT, CONTROL = "shuffled labels", "most frequent label", "control task"
BASELINES = (TOKEN, ADDED, PAIRS, SHUFFLED, FREQUENT)
"""What a probe must beat for its label to be decodable: the best guess from the token at the position alone; a probe of
token and position, which adds what each tells; the most frequent label of each pair of them; a probe fitted to labels
that are shuffled among the rows; always the most frequent label."""
LEAST_SELECTIVITY = 0.05
"""Accuracy less that on the control task, below which a probe learns the control task as well: a twentieth, about what
the intervals of two shares near 1 over a hundred sequences cannot tell apart."""
ROWS = "rows"  # the setting of a measurement that has the counts: label -> place -> `fitted`, `tested`, `pairs`
POSITION = "position"  # the label that is the position itself, which no position explains
BEFORE_ATTENTION = ("hook_embed", "hook_pos_embed", "blocks.0.hook_resid_pre", "blocks.0.hook_in", "blocks.0.ln1.")
FROM_EMBEDDING = (
    *("hook_q", "hook_k", "hook_v", "hook_rot_q", "hook_rot_k"),
    *("hook_q_input", "hook_k_input", "hook_v_input", "hook_attn_in"),
)


class Worth(StrEnum):
    """What a probe's accuracy shows.

    `LEARNS_ANYTHING` and `CANNOT_RULE_OUT` are of labels that beat every baseline there is, where there is no lookup of
    token and position: in the first the probe learns the control task as well, so it may be the probe that computes the
    label from the token. Where there is a lookup, it decides: that a probe can learn any function of the token is no
    reason against a label that token and position do not decide.
    """

    DECODABLE = "decodable"
    TOKEN_AND_POSITION = "explained by token and position"
    LEARNS_ANYTHING = "the probe learns anything"
    CANNOT_RULE_OUT = "token and position not ruled out"
    NO_BETTER = "no better than its baselines"
    UNDECIDED = "undecided"
    TOO_FEW = "too few"
    NO_INTERVAL = "no interval"
    NO_BASELINE = "no baseline"
    ONE_VALUE = "one value"

    @property
    def open(self) -> bool:
        """Whether more sequences or baselines might decide it."""
        decided = (Worth.DECODABLE, Worth.TOKEN_AND_POSITION, Worth.NO_BETTER, Worth.ONE_VALUE)
        return self not in decided


class Reached(Stored):
    """What a probe or a baseline reaches: the share decoded, or R², with its interval of 95 %; NaN where unknown."""

    value: float
    low: float
    high: float


class Decodable(Stored):
    """What a probe's accuracy at one point and place is worth.

    Attributes:
        worth: the verdict.
        units: `share`, or `R²` of a regression.
        trained: what the probe reads of the model.
        baselines: what each baseline reaches, by name; without those that say nothing there.
        untrained, untrained_models: the best of so many re-initialised models; None where none was probed.
        control: accuracy on the control task; None where it has one class, or was not asked for.
        n: sequences tested, or seeds.
        seeds: whether n counts seeds.
        tested, fitted: rows of these sequences; None where this is not known.
        pairs: pairs of token and position among the rows; None where this is not known.
        before_attention: whether the vectors hold nothing but token and position.
        of_position: whether the label is the position itself.
    """

    worth: Worth
    units: str = "share"
    trained: Reached = Reached(value=float("nan"), low=float("nan"), high=float("nan"))
    baselines: dict[str, Reached] = Field(default_factory=dict)
    untrained: Reached | None = None
    untrained_models: int = 0
    control: float | None = None
    n: int = 0
    seeds: bool = False
    tested: int | None = None
    fitted: int | None = None
    pairs: int | None = None
    before_attention: bool = False
    of_position: bool = False

    @property
    def best(self) -> str | None:
        """The baseline that reaches most."""
        return max(self.baselines, key=lambda name: self.baselines[name].value, default=None)

    @property
    def selectivity(self) -> float | None:
        """The accuracy less that on the control task (Hewitt and Liang 2019)."""
        return None if self.control is None else self.trained.value - self.control

    @property
    def learns_control(self) -> bool:
        """Whether the probe learns the control task as well, and so any label of the token."""
        return self.selectivity is not None and self.selectivity < LEAST_SELECTIVITY

    @property
    def lookup_refused(self) -> bool:
        """Whether there could be no lookup of token and position where one was asked for."""
        return self.pairs is not None and PAIRS not in self.baselines and not self.of_position

    @property
    def gained(self) -> bool | None:
        """Whether the trained model holds clearly more than re-initialised ones; None where this is not known."""
        return None if self.untrained is None else self.trained.low > self.untrained.high

    def above(self, names: Sequence[str]) -> bool:
        """Whether the whole interval of the probe lies above those of some baselines."""
        return self.trained.low > max(self.baselines[name].high for name in names)


def _before_attention(point: str) -> bool:
    """Whether a hook point comes before any position could read another.

    There every vector is a function of its token and position alone.
    """
    hook_name = point.removeprefix("blocks.0.attn.").removeprefix("blocks.0.")
    return point.startswith(BEFORE_ATTENTION) or (point.startswith("blocks.0.") and hook_name in FROM_EMBEDDING)


def judge(accuracy: Measurement) -> Decodable:
    """Decide what a probe's accuracy is worth.

    A label is decodable where the whole interval of the trained model lies above that of every baseline, with at least
    `LEAST_FOR_A_VERDICT` sequences (or seeds) behind it, and a lookup of token and position was among the baselines. A
    label that beats all but the baselines of token and position, or that is read before any attention, is explained by
    these two. The position itself is excepted: there the question is whether the model holds it at all.

    Args:
        accuracy: `probe(...)` at one point and place: dims `condition`.
    """
    assert accuracy.dims == ("condition",)
    names = [str(name) for name in accuracy.coords["condition"]]
    reached = {name: _reached(accuracy, i) for i, name in enumerate(names) if not np.isnan(accuracy.values[i])}
    settings = accuracy.settings
    label, place = settings.get("label"), settings.get("place")
    control = reached[CONTROL].value if CONTROL in reached else None
    counts = settings.get(ROWS, {}).get(label, {}).get(place, {})
    judged = Decodable(
        worth=Worth.ONE_VALUE,
        units=accuracy.units,
        trained=_reached(accuracy, names.index(TRAINED)),
        baselines={name: reached[name] for name in BASELINES if name in reached},
        untrained=reached.get(UNTRAINED),
        untrained_models=int(settings.get("untrained models", 1)) if UNTRAINED in reached else 0,
        control=control,
        n=LEAST_FOR_A_VERDICT if accuracy.n is None else int(accuracy.n[names.index(TRAINED)]),
        seeds=SEED + "s" in settings,
        tested=counts.get("tested"),
        fitted=counts.get("fitted"),
        pairs=counts.get("pairs") if PAIRS in names else None,
        before_attention=_before_attention(str(settings.get("point", ""))),
        of_position=label == POSITION,
    )
    return judged.model_copy(update={"worth": _worth(judged)})


def _reached(accuracy: Measurement, at: int) -> Reached:
    assert accuracy.low is not None and accuracy.high is not None
    return Reached(value=float(accuracy.values[at]), low=float(accuracy.low[at]), high=float(accuracy.high[at]))


def _worth(judged: Decodable) -> Worth:
    """The verdict, from the numbers."""
    if np.isnan(judged.trained.value):
        return Worth.ONE_VALUE
    if judged.best is None:
        return Worth.NO_BASELINE
    if judged.n < LEAST_FOR_A_VERDICT:
        return Worth.TOO_FEW
    if np.isnan(judged.trained.low):
        return Worth.NO_INTERVAL
    simple = [name for name in judged.baselines if name not in (ADDED, PAIRS)]  # those that need no position
    level = judged.trained.value <= judged.baselines[judged.best].value
    if judged.above(simple or list(judged.baselines)):
        if simple and judged.before_attention and not judged.of_position:
            return Worth.TOKEN_AND_POSITION
        if judged.above(list(judged.baselines)):
            if not judged.lookup_refused:
                return Worth.DECODABLE
            return Worth.LEARNS_ANYTHING if judged.learns_control else Worth.CANNOT_RULE_OUT
        if level:
            return Worth.TOKEN_AND_POSITION
    return Worth.NO_BETTER if level else Worth.UNDECIDED
