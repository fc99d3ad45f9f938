"""Units of measurements: where values can lie, and which of them may be all 0 or all 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np


@dataclass(frozen=True)
class Scale:
    """Where the values of a unit can lie.

    Attributes:
        least, most: the bounds.
        outcomes: whether every example may have the same value and the next one another, as with right and wrong: then
            intervals are those of rates, which use the bounds.
    """

    least: float = -np.inf
    most: float = np.inf
    outcomes: bool = False

    def of_differences(self) -> Scale:
        """The scale of the difference of two such values."""
        return Scale(self.least - self.most, self.most - self.least, self.outcomes)


ANY: Final = Scale()
_PART: Final = Scale(0.0, 1.0)
_COUNT: Final = Scale(0.0, np.inf)
_RATE: Final = Scale(0.0, 1.0, outcomes=True)

_OF_VALUES: Final[dict[str, Scale]] = {
    "share": _RATE,
    "probability": _RATE,
    "share of the trace": _PART,
    "share of log t": _PART,
    "share of log n": _PART,
    "share of log d": _PART,
    "share of log min": _PART,
    "difference of shares": _RATE.of_differences(),
    "cosine": Scale(-1.0, 1.0),
    "mean |cosine|": _PART,
    "R²": Scale(-np.inf, 1.0),
    "nats": _COUNT,
    "bits a label": _COUNT,
    "directions": _COUNT,
    "rank": _COUNT,
    "steps": _COUNT,
    "tokens": _COUNT,
}


SCALES: Final[dict[str, Scale]] = {
    **_OF_VALUES,
    **{f"difference in {units}": scale.of_differences() for units, scale in _OF_VALUES.items()},
}
"""Units -> their scale.

Units that are not here have no bounds; an instrument with bounded units of its own adds them.
"""


def scale_of(units: str) -> Scale:
    """The scale of these units; without bounds where they are not in `SCALES`."""
    return SCALES.get(units, ANY)
