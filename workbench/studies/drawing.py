"""A study's figure as its file states it: a quantity, and where and how it is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field, PrivateAttr

from workbench.measurement import Measurement
from workbench.studies.figures import by_dim, by_group, by_setting, over_training
from workbench.studies.study import Figure, Groups, Published
from workbench.util.lookup import lookup
from workbench.util.strict_settings import Checked


class Drawing(Checked):
    """A figure of one quantity, in the form that its dims ask for: bars, or lines over training or along its dim.

    Attributes:
        quantity: what is drawn; or the name of each line -> its quantity, of a single group.
        title: of the figure.
        x, y: titles of the axes, where they are not the setting, and the quantity.
        at: dim -> coordinate, where the quantity has further dims; `middle` and `last` are of its coordinates there.
        only: the groups to draw, each by its name or by that of its variant; by default all.
        across: a setting that groups differ in: its values stand along the x axis, and the rest of a group's name is
            the name of a line.
        most: a setting of which only the groups with its largest value are drawn.
        optional: it is left out where nothing was measured, as of results from before it was asked.
    """

    quantity: str | dict[str, str]
    title: str = ""
    x: str = ""
    y: str = ""
    at: dict[str, Any] = Field(default={})
    only: list[str] = Field(default=[])
    across: str = ""
    most: str = ""
    optional: bool = False
    _published: tuple[Published, ...] = PrivateAttr(())

    @property
    def quantities(self) -> list[str]:
        """The names of what it shows."""
        return [self.quantity] if isinstance(self.quantity, str) else list(self.quantity.values())

    def of_study(self, title: str, published: Iterable[Published]) -> Drawing:
        """The same with a study's title, if it has none of its own, and the paper's figures, which mark its bars."""
        own = self.model_copy(update={"title": self.title or title})
        own._published = tuple(published)
        return own

    def __call__(self, groups: Groups) -> Figure | None:
        """The figure; None where it is optional and nothing was measured."""
        return None if self.optional and not self._lines(groups) else self.figure(groups)

    def figure(self, groups: Groups) -> Figure:
        """The figure. Raises ValueError if nothing was measured, or it has dims that are not settled."""
        lines = self._lines(groups)
        quantity = self.quantities[0]
        if not lines:
            lookup({name: None for own in groups.values() for name in own}, quantity, "quantity")
            raise ValueError(f"{quantity} was measured of none of {', '.join(self.only or groups)}")
        first = next(iter(lines.values()))
        place = dict(self.at)
        for dim, label in self.at.items():  # `middle` and `last` as the coordinates that they are
            coords = first.coords.get(dim, ())
            if label not in coords and label in ("middle", "last"):
                place[dim] = coords[len(coords) // 2 if label == "middle" else -1]
        if self.across:
            return self._along_setting({name: line.select(**place) for name, line in lines.items()})
        shown = {name: {quantity: line} for name, line in lines.items()}
        dims = [dim for dim in first.dims if dim not in place]
        if not dims:
            return by_group(shown, quantity, self.title, at=place, published=self._published)
        if dims == ["step"]:
            return over_training(shown, quantity, self.title, at=place)
        if len(dims) > 1:
            raise ValueError(f"{quantity} has the dims {', '.join(dims)}; one of a single dim can be drawn")
        at_place = {name: {quantity: line.select(**place)} for name, line in lines.items()}
        return by_dim(at_place, quantity, self.title, self.y or quantity)

    def _lines(self, groups: Groups) -> dict[str, Measurement]:
        """The name of a line or bar -> what it shows; none where nothing was measured."""
        named = {name: own for name, own in groups.items() if not self.only or name.split(", ")[0] in self.only}
        named |= {name: groups[name] for name in self.only if name in groups}
        if self.most:
            largest = max((_value(name, self.most) for name in named), default=0.0)
            named = {name: own for name, own in named.items() if _value(name, self.most) == largest}
        if isinstance(self.quantity, str):
            return {name: own[self.quantity] for name, own in named.items() if self.quantity in own}
        own = next(iter(named.values()), {})
        return {name: own[each] for name, each in self.quantity.items() if each in own}

    def _along_setting(self, lines: dict[str, Measurement]) -> Figure:
        along: dict[str, dict[float, Measurement]] = {}
        for name, line in lines.items():
            rest = [part for part in name.split(", ") if not part.startswith(f"{self.across} ")]
            along.setdefault(", ".join(rest), {})[_value(name, self.across)] = line
        shared = set.intersection(*(set(name.split(", ")) for name in along)) if len(along) > 1 else set()
        own = {", ".join(part for part in name.split(", ") if part not in shared): line for name, line in along.items()}
        y = self.y or next(iter(lines.values())).name
        return by_setting(own, self.title, self.x or self.across, y)


def _value(group: str, setting: str) -> float:
    """The value of a setting in a group's name, `standard, n 16, n_layers 2`. Raises ValueError if it has none."""
    for part in group.split(", ")[1:]:
        name, _, value = part.partition(" ")
        if name == setting:
            return float(value)
    raise ValueError(f"the group {group} has no number of {setting} to be drawn by")
