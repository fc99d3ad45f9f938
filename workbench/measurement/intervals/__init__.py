"""95 % intervals of means: of rates, of numbers without bounds, and of differences.

`rates` is for what lies between two bounds (shares, outcomes, their differences), `bootstrap` for everything else,
`differences` for two independent means. Which interval is for what was decided by how often each covers the truth:
docs/concepts/controls.md has the table. Tests of whether two means differ are in `measurement.p_values`.
"""

from __future__ import annotations

from workbench.measurement.intervals.base import FEWEST, LEAST_FOR_A_VERDICT, LEVEL, Interval, around, mean
from workbench.measurement.intervals.bootstrap import bootstrap, student
from workbench.measurement.intervals.differences import apart, welch
from workbench.measurement.intervals.rates import bounded, exact, graded, redrawn, share_interval

__all__ = [
    "FEWEST",
    "LEAST_FOR_A_VERDICT",
    "LEVEL",
    "Interval",
    "apart",
    "around",
    "bootstrap",
    "bounded",
    "exact",
    "graded",
    "mean",
    "redrawn",
    "share_interval",
    "student",
    "welch",
]
