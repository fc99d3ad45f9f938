"""A measurement broken down by what its examples are: their length, their condition, their number of operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.instruments.measurement import Measurement


def by_group(measurement: Measurement, groups: Sequence[Any], dim: str = "group") -> Measurement:
    """The mean over the examples of each group, with interval and n; groups become the first dim.

    Args:
        measurement: with the dim `example`.
        groups: each example's group, such as its length; None leaves the example out.
        dim: what to call the new dim.

    Raises:
        ValueError: if there are not as many groups as examples, or every one is None.
    """
    size = measurement.values.shape[measurement.axis("example")]
    if len(groups) != size:
        raise ValueError(f"{measurement.name!r} has {size} examples, but there are {len(groups)} groups")
    labels = sorted({group for group in groups if group is not None})
    if not labels:
        raise ValueError(f"no example of {measurement.name!r} belongs to a group")
    parts = []
    for label in labels:
        rows = [i for i, group in enumerate(groups) if group == label]
        parts.append(measurement.pick(rows).mean("example"))
    return Measurement.stack(parts, dim, labels)


def conditions_as_groups(conditions: Sequence[dict[str, Any]]) -> tuple[str, list[Any]] | None:
    """The setting in which test conditions differ, such as `length`, and each example's value; None without one."""
    names = dict.fromkeys(name for condition in conditions for name in condition)
    for name in names:
        values = [condition.get(name) for condition in conditions]
        if len(set(values)) > 1 and all(isinstance(value, int | float) for value in values):
            return name, values
    return None
