"""Is a number more than of shuffled labels? Permutation tests, for numbers that are no counts of tries.

The one rule (`rule`) is for counts of models, which differ. A shuffle is no model: the number itself is computed anew,
and what it exceeds in all but a twentieth of shuffles it hardly exceeds by chance.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from workbench.judgement.rule import ALPHA, Stored
from workbench.measurement import Measurement

SHUFFLES, SEED = 400, 0


class Shuffled(Stored):
    """A number beside the same of shuffled labels.

    Attributes:
        value: the number.
        most: what shuffles exceed in a twentieth of cases at most.
        beyond: whether it is more than that.
        step: of a map between tokens, the step from a row to its column that the number counts rows of.
    """

    value: float
    most: float
    beyond: bool
    step: int = 0


def classes_apart(between: Measurement) -> Shuffled | None:
    """How much of all variance lies between a label's classes; None where there is no variance.

    It has to exceed every one of 20 shuffles, as one at random does in 1 of 21 cases.

    Args:
        between: of `components(…)`: dims `within`, `labels`.
    """
    own, shuffled = (between.select(within="all", labels=labels) for labels in between.coords["labels"])
    if np.isnan(own.values) or shuffled.high is None:
        return None
    value, most = float(own.values), float(shuffled.high)
    return Shuffled(value=value, most=most, beyond=value > most)


def one_step(matrix: Float[np.ndarray, "row column"]) -> Shuffled:
    """How many rows' largest entries are at one step through the vocabulary, beside rows whose columns are mixed."""
    top = matrix.argmax(1)
    step, n = _most_at_one_step(top)
    rng = np.random.default_rng(SEED)
    most = np.quantile([_most_at_one_step(rng.permutation(top))[1] for _ in range(SHUFFLES)], 1 - ALPHA)
    return Shuffled(value=n, most=float(most), beyond=bool(n > most), step=step)


def _most_at_one_step(top: Int[np.ndarray, " row"]) -> tuple[int, int]:
    steps, counts = np.unique(top - np.arange(len(top)), return_counts=True)
    return int(steps[counts.argmax()]), int(counts.max())
