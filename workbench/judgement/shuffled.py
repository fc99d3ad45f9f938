"""Is a number more than of shuffled labels? Permutation tests, for numbers that are no counts of tries.

The one rule (`rule`) is for counts of models, which differ. A shuffle is no model: the number itself is computed anew,
and what it exceeds in all but a twentieth of shuffles it hardly exceeds by chance.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from workbench.judgement.against_controls import ALPHA

SHUFFLES, SEED = 400, 0


def one_step(matrix: Float[np.ndarray, "row column"]) -> tuple[int, int, float]:
    """At which step through the vocabulary most rows have their largest entry, how many have, and how many by chance.

    The last is what rows whose columns are mixed exceed in a twentieth of cases at most.
    """
    top = matrix.argmax(1)
    step, n = _most_at_one_step(top)
    rng = np.random.default_rng(SEED)
    most = np.quantile([_most_at_one_step(rng.permutation(top))[1] for _ in range(SHUFFLES)], 1 - ALPHA)
    return step, n, float(most)


def _most_at_one_step(top: Int[np.ndarray, " row"]) -> tuple[int, int]:
    steps, counts = np.unique(top - np.arange(len(top)), return_counts=True)
    return int(steps[counts.argmax()]), int(counts.max())
