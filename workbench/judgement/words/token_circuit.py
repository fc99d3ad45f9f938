"""What a map between tokens shows, in a sentence: whether its rows have their largest entry at one step."""

from __future__ import annotations

import numpy as np

from workbench.judgement.shuffled import one_step
from workbench.measurement import Measurement
from workbench.measurement.numbers import counted, number

FEWEST = 4  # tokens


def largest_of_rows(m: Measurement) -> str | None:
    """At which step through the vocabulary the largest entries of the rows stand, beside rows whose columns are mixed.

    Args:
        m: dims `from`, `to`, over one vocabulary: `token_circuits.circuit`, or a matrix of `token_circuits.reads`.

    Returns the sentence; None for a map of few tokens.
    """
    if min(m.values.shape) < FEWEST:
        return None
    found, rows = one_step(m.values), len(m.values)
    row = int(np.abs(m.values).max(1).argmax())
    column = int(np.abs(m.values[row]).argmax())
    largest = number(float(m.values[row, column]), m.units)
    most = f"largest of all: {m.coords['from'][row]} → {m.coords['to'][column]}, {largest}"
    if not found.beyond:
        return f"The largest entries of the {rows} rows follow no one step through the vocabulary; {most}."
    after = f"{abs(found.step)} {'after' if found.step > 0 else 'before'} it"
    where = f"the token {after if found.step else 'itself'}"
    mixed = counted(found.most, rows)
    return f"{counted(found.value, rows)} rows have their largest entry at {where} (mixed: at most {mixed}); {most}."
