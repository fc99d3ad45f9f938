"""What a measurement is: values with named dims, units and intervals; comparisons, groups and controls of them."""

from __future__ import annotations

from workbench.measurement.groups import by_group
from workbench.measurement.measurement import Measurement

__all__ = ["Measurement", "by_group"]
