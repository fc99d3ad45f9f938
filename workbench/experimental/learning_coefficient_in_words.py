"""An estimate of the learning coefficient, and what speaks against it, in words.

Promoted into `judgement.words`, or removed, with `learning_coefficient`, whose estimates it words.
"""

from __future__ import annotations

import math

from workbench.experimental.learning_coefficient_judged import Doubt, Drawn, LearningCoefficient
from workbench.measurement.numbers import number

ADVICE: dict[Doubt, str] = {
    Doubt.LEFT: "take a smaller step_size or a larger localisation",
    Doubt.NO_MINIMUM: "it is none, so train on before measuring",
    Doubt.APART: "take more draws",
    Doubt.DRIFTS: "take a longer burn_in",
    Doubt.STEP: "take more draws, or a smaller step_size if the estimate rises",
    Doubt.LOCALISATION: "take a smaller localisation",
}


def in_words(found: LearningCoefficient) -> str:
    """`Learning coefficient 10.2 (step 0.0001, γ = 1), over 4 chains within 0.3; 10.7 at step 0.0004; …`."""
    own = f"{_value(found)} ({_drawn(found)})"
    others = "; ".join(f"{_value(one)} at {_otherwise(found, one)}" for one in found.repeated)
    if found.trusted:
        chains = f"{len(found.chains)} chains with a spread of {number(found.spread)}"
        return f"Learning coefficient {own}, {chains}; {others}."
    why = "; ".join(f"{doubt}: {ADVICE[doubt]}" for doubt in found.doubts)
    return f"Learning coefficient not trusted: {own}; {others}. {why[0].upper()}{why[1:]}."


def _value(one: Drawn) -> str:
    return number(one.value) if math.isfinite(one.value) else "left for infinity"


def _drawn(one: Drawn) -> str:
    return f"step {one.step_size:g}, γ = {one.localisation:g}"


def _otherwise(found: Drawn, one: Drawn) -> str:
    """The setting in which a repeated estimate differs."""
    return f"step {one.step_size:g}" if one.step_size != found.step_size else f"γ = {one.localisation:g}"
