"""Edits along a named direction of one's own basis: its coordinate is set, scaled or added to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from workbench.capture import Capture
from workbench.interventions.edit_protocol import AtPosition, Hooks, point_in_words, points, put
from workbench.models import AnyHooked
from workbench.tasks import Task
from workbench.util.lookup import lookup

How = Literal["set", "scale", "add"]
NEW: dict[str, Callable[[Tensor, float], Tensor | float]] = {
    "set": lambda coordinate, value: value,
    "scale": lambda coordinate, value: value * coordinate,
    "add": lambda coordinate, value: coordinate + value,
}
"""The coordinate that takes the place of one."""
WORDS = {
    "set": "its coordinate along {name} is {value:g}",
    "scale": "its coordinate along {name} is {value:g} times as large",
    "add": "{value:g} times {name} is added",
}


@dataclass(frozen=True)
class AlongDirection(AtPosition):
    """The residual's coordinate along a named direction changes; all that is orthogonal to the direction stays.

    The coordinate of a residual x along a direction d is x·d / d·d, so that 1 is once the direction, as long as it is
    in its file. `add` steers; `set` to 0 removes.

    Attributes:
        direction: a name in `subject.directions`.
        how: `set`, `scale` or `add`.
        value: the coordinate, the factor, or what is added to the coordinate.
        point: one of `points(subject)`; by default where the directions were found.
        position: where; None for every position.
    """

    direction: str
    how: How
    value: float
    point: str | None = None
    position: int | None = None

    def in_words(self, task: Task) -> str:
        where = "" if self.point is None else f" ({point_in_words(self.point)})"
        return (
            WORDS[self.how].format(name=self.direction, value=self.value)
            + (self.where_in_words or " everywhere")
            + where
        )

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        if (named := seen.subject.directions) is None:
            raise ValueError(f"{self.direction!r} is no direction: there is no file of named directions (basis)")
        direction, point = named[self.direction], self.point or named.point
        if point is None:
            raise ValueError(f"{named.name} does not say where its directions were found: name a point")
        lookup(dict.fromkeys(points(seen.subject)), point, "point")
        new = lookup(NEW, self.how, "edit along a direction")
        where = self.mask(seen)[:, None]

        def move(activation: Tensor, hook: Any) -> Tensor:
            d = direction.to(activation)
            coordinate = (activation @ d / (d @ d))[..., None]
            moved = activation + (new(coordinate, self.value) - coordinate) * d
            return put(activation, hook, where=where, values=moved)

        return [(point, move)]
