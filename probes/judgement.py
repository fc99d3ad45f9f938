"""What a probe's accuracy is worth beside its baselines: a value to decide with, and a sentence to read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.measurement import SEED
from workbench.probes.conditions import BASELINES, FREQUENT, PLACED, SHUFFLED, TOKEN, TRAINED, UNTRAINED


class Worth(Enum):
    """What a probe's accuracy says, with the words that a verdict begins with."""

    DECODABLE = "decodable"
    TOKEN_AND_POSITION = "no more than token and position tell"
    NO_BETTER = "no better than its baselines"
    NOT_TOLD = "not told apart from its baselines"
    TOO_FEW = "too few to tell"
    NO_BASELINE = "no baseline to hold it against"
    ONE_VALUE = "nothing to tell apart"

    @property
    def open(self) -> bool:
        """Whether more sequences might decide it."""
        return self in (Worth.NOT_TOLD, Worth.TOO_FEW, Worth.NO_BASELINE)


@dataclass(frozen=True)
class Judgement:
    """What a probe's accuracy at one point and place is worth.

    Attributes:
        worth: the verdict.
        numbers: what it rests on, in words.
    """

    worth: Worth
    numbers: str

    def __str__(self) -> str:
        return f"{self.worth.value}: {self.numbers}"


IN_WORDS = {
    TOKEN: "the current token alone",
    PLACED: "token and position alone",
    SHUFFLED: "shuffled labels",
    FREQUENT: "the most frequent label",
}
BEFORE_ATTENTION = ("hook_embed", "hook_pos_embed", "blocks.0.hook_resid_pre", "blocks.0.hook_in", "blocks.0.ln1.")
FROM_EMBEDDING = ("hook_q", "hook_k", "hook_v", "hook_q_input", "hook_k_input", "hook_v_input", "hook_attn_in")


def before_attention(point: str) -> bool:
    """Whether what is at a hook point was made before any position could read another.

    There everything is a function of the token and the position alone.
    """
    own = point.removeprefix("blocks.0.attn.").removeprefix("blocks.0.")
    return point.startswith(BEFORE_ATTENTION) or (point.startswith("blocks.0.") and own in FROM_EMBEDDING)


def judge(found: Measurement) -> Judgement:
    """Decide what a probe's accuracy is worth.

    A label is decodable where the whole interval of the trained model lies above that of every baseline, with at least
    `LEAST_FOR_A_VERDICT` sequences (or seeds) behind it. What lies above all but the baseline of token and position,
    or is read before any attention, is no more than these tell: a position's own label excepted, of which the question
    is whether it is held at all.

    Args:
        found: `probe(...)` at one point and place: dims `condition`.
    """
    assert found.low is not None and found.high is not None and found.dims == ("condition",)
    names = list(found.coords["condition"])
    own, unit = names.index(TRAINED), "R² {:.2f}" if found.units == "R²" else "{:.0%}"
    value = found.values[own]
    if np.isnan(value):
        return Judgement(Worth.ONE_VALUE, "it has one value there")
    others = [i for i, name in enumerate(names) if name in BASELINES and not np.isnan(found.values[i])]
    if not others:
        return Judgement(Worth.NO_BASELINE, unit.format(value))
    best = max(others, key=lambda i: found.values[i])
    numbers = f"{unit.format(value)} against {unit.format(found.values[best])} for {IN_WORDS[names[best]]}"
    n = LEAST_FOR_A_VERDICT if found.n is None else int(found.n[own])
    if n < LEAST_FOR_A_VERDICT:
        what = "seeds" if SEED + "s" in found.settings else "sequences"
        return Judgement(Worth.TOO_FEW, f"{n} {what} of at least {LEAST_FOR_A_VERDICT}; {numbers}")
    if np.isnan(found.low[own]):
        return Judgement(Worth.TOO_FEW, f"without an interval; {numbers}")
    plain = [i for i in others if names[i] != PLACED]
    if plain and found.low[own] > found.high[plain].max():
        if before_attention(str(found.settings.get("point", ""))) and found.settings.get("label") != "position":
            return Judgement(Worth.TOKEN_AND_POSITION, f"{numbers}; before attention nothing else is there")
        if found.low[own] > found.high[others].max():
            return Judgement(Worth.DECODABLE, f"{numbers}{_untrained(found, unit)}")
        if value <= found.values[best]:
            return Judgement(Worth.TOKEN_AND_POSITION, numbers)
    if not plain and found.low[own] > found.high[others].max():
        return Judgement(Worth.DECODABLE, f"{numbers}{_untrained(found, unit)}")
    return Judgement(Worth.NO_BETTER if value <= found.values[best] else Worth.NOT_TOLD, numbers)


def verdict(found: Measurement) -> str:
    """The same in words: 'decodable: 97% against 31% for the current token alone; …'."""
    return str(judge(found))


def _untrained(found: Measurement, unit: str) -> str:
    """What training added, as far as that was measured."""
    if UNTRAINED not in found.coords["condition"]:
        return ""
    trained, fresh = (found.select(condition=name) for name in (TRAINED, UNTRAINED))
    assert trained.low is not None and fresh.high is not None
    draws = found.settings.get("untrained models", 1)
    told = "" if trained.low > fresh.high else ", which is not told apart"
    whose = "an untrained model" if draws == 1 else f"the best of {draws} untrained models"
    return f"; {unit.format(float(fresh.values))} from {whose}{told}"
