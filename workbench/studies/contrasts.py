"""Contrasts: what must hold of groups of seeds for a study's answer to be yes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.judgement.verdict import ContrastKind, ContrastQuestion, Group, Outcome, decide
from workbench.judgement.words.studies import Places, question
from workbench.measurement import Measurement
from workbench.measurement.places import place_in_words
from workbench.measurement.units import scale_of
from workbench.util.lookup import lookup

if TYPE_CHECKING:
    from workbench.studies.study import Published

OVER_TRAINING, OVER_FINE_TUNING = " over training", " over fine-tuning"
"""Ends of the names of learning curves, which say whether a group had come to rest."""

Means = Mapping[str, Mapping[str, Measurement]]


class Contrast(ABC):
    """Something that must hold: what is asked, of which groups, at which places."""

    @property
    @abstractmethod
    def asked(self) -> ContrastQuestion:
        """What it asks."""

    @property
    @abstractmethod
    def places(self) -> Places:
        """The groups that it is about, each with the place at which its quantity is read: dim -> coordinate."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of these groups."""
        return tuple(group for group, _ in self.places)

    @property
    def asks(self) -> str:
        """What it asks, in words."""
        return question(self.asked, self.places)

    def beside(self, published: Iterable[Published]) -> Contrast:
        """The same with what was published of it, where that is a difference of its groups at their places."""
        return self

    def check(self, units: str) -> None:
        """Raise ValueError if it compares a group with itself, or its value is none of a quantity in these units."""
        if len(self.places) == 2 and self.places[0] == self.places[1]:
            raise ValueError(f"a contrast of {self.asked.quantity} compares {self.groups[0]!r} with itself")
        scale, value = scale_of(units), self.asked.value
        scale = scale.of_differences() if self.asked.kind is ContrastKind.HIGHER else scale
        if not scale.least <= value <= scale.most:
            raise ValueError(
                f"a contrast of {self.asked.quantity} ({units}) has a value from {scale.least:g} to {scale.most:g}, "
                f"not {value:g}"
            )

    def ask(self, means: Means, settings: Mapping[str, str] | None = None) -> Outcome:
        """Whether it holds.

        Args:
            means: group -> quantity -> its mean over seeds.
            settings: group -> those that were chosen for it, in words, where they are not those planned.

        Raises:
            ValueError: if a group or quantity is missing, `at` leaves dims open, or as `check`.
        """
        chosen, quantity = settings or {}, self.asked.quantity
        groups = []
        for name, at in self.places:
            own = lookup(means, name, "group")
            mean = lookup(own, quantity, f"quantity of {name}").select(**at)
            if mean.dims:
                raise ValueError(
                    f"{quantity} has the dims {', '.join(mean.dims)}: say at which coordinates to compare, in `at`"
                )
            # The group's learning curve, of the quantity or else of accuracy; one that is no share tells nothing here.
            curves = product((quantity, "accuracy"), (OVER_TRAINING, OVER_FINE_TUNING))
            of, curve = next(((of, own[of + over]) for of, over in curves if of + over in own), ("", None))
            curve = None if curve is None or curve.units != "share" else curve
            groups.append(Group.of(mean, name, at, chosen.get(name, ""), curve, of_itself=of == quantity and not at))
        self.check(groups[0].units)
        return decide(self.asked, groups)


@dataclass(frozen=True)
class Higher(Contrast):
    """One group's mean lies above another's, by more than a margin.

    Attributes:
        quantity: what is compared.
        group, than: the two groups.
        by: the margin, in the quantity's units; if it is negative, being lower by less is enough.
        at: dim -> coordinate, where the quantity has dims.
        than_at: the coordinate of the other group, where it is another one; then the two may be one group.
        published: the difference that was published, where one was (`Study.asked` fills it in).
    """

    quantity: str
    group: str
    than: str
    by: float = 0.0
    at: Mapping[str, Any] = field(default_factory=dict)
    than_at: Mapping[str, Any] | None = None
    published: float | None = None

    @property
    def asked(self) -> ContrastQuestion:
        return ContrastQuestion(
            kind=ContrastKind.HIGHER, quantity=self.quantity, value=self.by, published=self.published
        )

    @property
    def places(self) -> Places:
        return ((self.group, self.at), (self.than, self.at if self.than_at is None else self.than_at))

    def beside(self, published: Iterable[Published]) -> Contrast:
        known = {(one.group, one.quantity, place_in_words(one.at)): one.value for one in published}
        ours, theirs = (known.get((group, self.quantity, place_in_words(at))) for group, at in self.places)
        return self if ours is None or theirs is None else replace(self, published=ours - theirs)


@dataclass(frozen=True)
class Reaches(Contrast):
    """Every seed of a group reaches a value.

    Attributes:
        quantity, group, at: as of `Higher`.
        value: what is to be reached.
    """

    quantity: str
    group: str
    value: float
    at: Mapping[str, Any] = field(default_factory=dict)

    kind: ClassVar[ContrastKind] = ContrastKind.REACHES

    @property
    def asked(self) -> ContrastQuestion:
        return ContrastQuestion(kind=self.kind, quantity=self.quantity, value=self.value)

    @property
    def places(self) -> Places:
        return ((self.group, self.at),)


@dataclass(frozen=True)
class StaysBelow(Reaches):
    """No seed of a group reaches a value: `Reaches` the other way round."""

    kind: ClassVar[ContrastKind] = ContrastKind.STAYS_BELOW


@dataclass(frozen=True)
class Near(Contrast):
    """A group's mean lies within a distance of a value.

    Attributes:
        quantity, group, at: as of `Higher`.
        value, within: what it is to be near, and how near.
    """

    quantity: str
    group: str
    value: float
    within: float
    at: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> ContrastQuestion:
        return ContrastQuestion(kind=ContrastKind.NEAR, quantity=self.quantity, value=self.value, within=self.within)

    places = Reaches.places
