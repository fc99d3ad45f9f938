"""The verdict on a probe: is the label decodable, beside what the baselines reach? A value, and a sentence to read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.intervals import LEAST_FOR_A_VERDICT
from workbench.measurement.measurement import SEED
from workbench.probes.baselines_and_controls import BASELINE_IN_WORDS, BASELINES, PLACED, TRAINED, UNTRAINED
from workbench.probes.decoding import R2
from workbench.probes.labels import POSITION


class Worth(Enum):
    """What a probe's accuracy shows, with the words that begin the verdict."""

    DECODABLE = "decodable"
    TOKEN_AND_POSITION = "explained by token and position alone"
    NO_BETTER = "no better than its baselines"
    UNDECIDED = "undecided whether better than its baselines"
    TOO_FEW = "undecided"
    NO_BASELINE = "no baseline to compare with"
    ONE_VALUE = "nothing to tell apart"

    @property
    def open(self) -> bool:
        """Whether more sequences or baselines might decide it."""
        return self in (Worth.UNDECIDED, Worth.TOO_FEW, Worth.NO_BASELINE)


@dataclass(frozen=True)
class Judgement:
    """What a probe's accuracy at one point and place is worth.

    Attributes:
        worth: the verdict.
        numbers: the numbers behind it, in words.
    """

    worth: Worth
    numbers: str

    def __str__(self) -> str:
        return f"{self.worth.value}: {self.numbers}"


def gain(accuracy: Measurement) -> Measurement:
    """How much more a probe reads of the trained model than of the best baseline or of an untrained model.

    Args:
        accuracy: `probe(...)`, with the dim `condition` and any others.

    Returns:
        The same without that dim and without intervals; NaN where the probe could not be fitted.
    """
    beside = [name for name in accuracy.coords["condition"] if name in (*BASELINES, UNTRAINED)]
    axis = accuracy.dims.index("condition")
    values = accuracy.select(condition=TRAINED).values
    if beside:
        names = list(accuracy.coords["condition"])
        others = np.take(accuracy.values, [names.index(name) for name in beside], axis)
        values = values - np.nan_to_num(others, nan=0.0).max(axis)
    return Measurement(
        name=f"Gain of {accuracy.name}",
        values=values,
        dims=tuple(dim for dim in accuracy.dims if dim != "condition"),
        coords={dim: labels for dim, labels in accuracy.coords.items() if dim != "condition"},
        units=accuracy.units,
        settings=accuracy.settings,
        caption="What a probe reads of the trained model less what it reads of the best baseline or of an untrained "
        "model of the same shape.",
    )


BEFORE_ATTENTION = ("hook_embed", "hook_pos_embed", "blocks.0.hook_resid_pre", "blocks.0.hook_in", "blocks.0.ln1.")
FROM_EMBEDDING = (
    *("hook_q", "hook_k", "hook_v", "hook_rot_q", "hook_rot_k"),
    *("hook_q_input", "hook_k_input", "hook_v_input", "hook_attn_in"),
)


def before_attention(point: str) -> bool:
    """Whether a hook point comes before any position could read another.

    There every vector is a function of its token and position alone.
    """
    hook_name = point.removeprefix("blocks.0.attn.").removeprefix("blocks.0.")
    return point.startswith(BEFORE_ATTENTION) or (point.startswith("blocks.0.") and hook_name in FROM_EMBEDDING)


def judge(accuracy: Measurement) -> Judgement:
    """Decide what a probe's accuracy is worth.

    A label is decodable where the whole interval of the trained model lies above that of every baseline, with at least
    `LEAST_FOR_A_VERDICT` sequences (or seeds) behind it. A label that beats all baselines but that of token and
    position, or that is read before any attention, is explained by token and position. The position itself is excepted:
    there the question is whether the model holds it at all.

    Args:
        accuracy: `probe(...)` at one point and place: dims `condition`.
    """
    assert accuracy.low is not None and accuracy.high is not None and accuracy.dims == ("condition",)
    names = list(accuracy.coords["condition"])
    trained, value = names.index(TRAINED), float(accuracy.select(condition=TRAINED).values)
    if np.isnan(value):
        return Judgement(Worth.ONE_VALUE, "the label has one value there")
    baselines = [i for i, name in enumerate(names) if name in BASELINES and not np.isnan(accuracy.values[i])]
    unit = _unit(accuracy)
    if not baselines:
        return Judgement(Worth.NO_BASELINE, unit.format(value))
    best = max(baselines, key=lambda i: accuracy.values[i])
    best_value = accuracy.values[best]
    numbers = f"{unit.format(value)} against {unit.format(best_value)} for {BASELINE_IN_WORDS[names[best]]}"
    n = LEAST_FOR_A_VERDICT if accuracy.n is None else int(accuracy.n[trained])
    if n < LEAST_FOR_A_VERDICT:
        drawn = "seeds" if SEED + "s" in accuracy.settings else "sequences"
        return Judgement(Worth.TOO_FEW, f"{n} {drawn}, and a verdict needs {LEAST_FOR_A_VERDICT}; {numbers}")
    if np.isnan(accuracy.low[trained]):
        return Judgement(Worth.TOO_FEW, f"there is no interval; {numbers}")
    simple = [i for i in baselines if names[i] != PLACED]  # those that need no position
    if accuracy.low[trained] > accuracy.high[simple or baselines].max():
        if simple and _reads_token_and_position_only(accuracy):
            return Judgement(Worth.TOKEN_AND_POSITION, f"{numbers}; before attention nothing else is there")
        if accuracy.low[trained] > accuracy.high[baselines].max():
            return Judgement(Worth.DECODABLE, f"{numbers}{_untrained(accuracy)}")
        if value <= best_value:
            return Judgement(Worth.TOKEN_AND_POSITION, numbers)
    return Judgement(Worth.NO_BETTER if value <= best_value else Worth.UNDECIDED, numbers)


def verdict(accuracy: Measurement) -> str:
    """The verdict in words: 'decodable: 97% against 31% for the current token alone; …'."""
    return str(judge(accuracy))


def _unit(accuracy: Measurement) -> str:
    """How a value is written."""
    return "R² {:.2f}" if accuracy.units == R2 else "{:.0%}"


def _reads_token_and_position_only(accuracy: Measurement) -> bool:
    """Whether the vectors hold nothing but token and position, and the label is more than the position."""
    at, label = str(accuracy.settings.get("point", "")), accuracy.settings.get("label")
    return before_attention(at) and label != POSITION


def _untrained(accuracy: Measurement) -> str:
    """What training added, in words, as far as that was measured."""
    if UNTRAINED not in accuracy.coords["condition"]:
        return ""
    trained, fresh = (accuracy.select(condition=name) for name in (TRAINED, UNTRAINED))
    assert trained.low is not None and fresh.high is not None
    draws = accuracy.settings.get("untrained models", 1)
    models = "an untrained model" if draws == 1 else f"the best of {draws} untrained models"
    gain = "" if trained.low > fresh.high else ", so no clear gain from training"
    return f"; {_unit(accuracy).format(float(fresh.values))} from {models}{gain}"
