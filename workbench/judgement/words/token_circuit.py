"""What a map between tokens shows, in a sentence: whether its rows have their largest entry at one step."""

from __future__ import annotations

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.numbers import number

SHUFFLES, SEED = 400, 0
FEWEST = 4  # tokens


def largest_of_rows(m: Measurement) -> str | None:
    """At which step through the vocabulary the largest entries of the rows stand, beside rows whose columns are mixed.

    Args:
        m: dims `from`, `to`, over one vocabulary: `token_circuits.circuit`, or a matrix of `token_circuits.reads`.

    Returns the sentence; None for a map of few tokens.
    """
    if min(m.values.shape) < FEWEST:
        return None
    top = m.values.argmax(1)
    step, n = _at_one_step(top)
    rng = np.random.default_rng(SEED)
    often = np.quantile([_at_one_step(rng.permutation(top))[1] for _ in range(SHUFFLES)], 0.95)
    row = int(np.abs(m.values).max(1).argmax())
    column = int(np.abs(m.values[row]).argmax())
    largest = number(float(m.values[row, column]), m.units)
    most = f"largest of all: {m.coords['from'][row]} → {m.coords['to'][column]}, {largest}"
    if n <= often:
        return f"The largest entries of the {len(top)} rows follow no one step through the vocabulary; {most}."
    where = "the token itself" if step == 0 else f"the token {abs(step)} {'after' if step > 0 else 'before'} it"
    return f"{n} of {len(top)} rows have their largest entry at {where} (rows mixed: at most {often:.0f}); {most}."


def _at_one_step(top: np.ndarray) -> tuple[int, int]:
    """The step from a row to its column that most rows share, and how many do."""
    steps, counts = np.unique(top - np.arange(len(top)), return_counts=True)
    return int(steps[counts.argmax()]), int(counts.max())
