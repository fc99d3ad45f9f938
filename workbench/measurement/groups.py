"""Per-example results by a group that each example belongs to: its length, its condition, or any other label."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from workbench.measurement.measurement import Measurement


def by_group(
    measurement: Measurement, groups: Sequence[Hashable] | np.ndarray | Tensor, dim: str = "group"
) -> Measurement:
    """The mean over the examples of each group, with interval and n: `example` goes, `dim` is the new first dim.

    Args:
        measurement: per example.
        groups: each example's group, as test conditions were drawn; examples whose group is None are left out. Groups
            come in order of size if they are numbers, of appearance if not.
        dim: what the groups are (`length`).

    Raises:
        ValueError: if the measurement is not per example, there is not one group for each, or no example has any.
    """
    axis = measurement.axis("example")
    groups = list(groups) if isinstance(groups, Sequence) else groups.tolist()
    n = measurement.values.shape[axis]
    if len(groups) != n:
        raise ValueError(f"{measurement.name!r} has {n} examples, but there are {len(groups)} groups of examples")
    labels: list[Any] = [group for group in dict.fromkeys(groups) if group is not None]
    if not labels:
        raise ValueError("no example belongs to a group")
    if all(isinstance(label, int | float) for label in labels):
        labels.sort()
    parts = []
    for label in labels:
        members = np.flatnonzero([group == label for group in groups])
        parts.append(measurement.pick(members.tolist()).mean("example"))
    return Measurement.stack(parts, dim, labels)


def conditions_as_groups(conditions: Sequence[dict[str, Any]]) -> tuple[str, list[Any]] | None:
    """The setting in which test conditions differ, such as `length`, and each example's value; None without one."""
    for name in dict.fromkeys(name for condition in conditions for name in condition):
        values = [condition.get(name) for condition in conditions]
        if len(set(values)) > 1 and all(isinstance(value, int | float) for value in values):
            return name, values
    return None
