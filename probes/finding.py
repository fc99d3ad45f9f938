"""What a preset found: of each label and place, where it can be read, where it is used, and what may be said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.places import point_name
from workbench.probes.conditions import TRAINED
from workbench.probes.judgement import Judgement, Worth, judge
from workbench.probes.use import Told, Use


class Standing(Enum):
    """What may be said of a label, in words."""

    USED = "used"
    UNUSED = "decodable, not used"
    DECODABLE = "decodable"
    TOKEN_AND_POSITION = "no more than token and position"
    NOT_DECODABLE = "not decodable"
    NOT_TOLD = "not told"


@dataclass(frozen=True)
class Finding:
    """What was found of one label at one place.

    Attributes:
        label, place: which; no place where the rule has one only.
        point: the first at which it is used; or else the first where it can be read; None where it cannot.
        judged: what the probe's accuracy is worth there, or where it is best.
        uses: the causal tests, by point: one at every point where it can be read, if any was made.
    """

    label: str
    place: str | None
    point: str | None
    judged: Judgement
    uses: Mapping[str, Use] = field(default_factory=dict)

    @property
    def use(self) -> Use | None:
        """The causal test at `point`, if there was one."""
        return None if self.point is None else self.uses.get(self.point)

    @property
    def standing(self) -> Standing:
        """What may be said of it."""
        if self.judged.worth is Worth.TOKEN_AND_POSITION:
            return Standing.TOKEN_AND_POSITION
        if self.point is None:
            return Standing.NOT_TOLD if self.judged.worth.open else Standing.NOT_DECODABLE
        told = {use.told for use in self.uses.values()}
        if Told.USED in told:
            return Standing.USED
        return Standing.UNUSED if told == {Told.UNUSED} else Standing.DECODABLE

    @property
    def said(self) -> str:
        """What the probe's accuracy is worth, in words."""
        return str(self.judged)

    def verdict(self) -> str:
        """What may be said of it, in words: one of `Standing`."""
        return self.standing.value

    def in_words(self) -> str:
        """In a few lines, for people."""
        where = self.label.replace("_", " ") + (f" at {self.place}" if self.place else "")
        first = f" from {point_name(self.point)}" if self.point else ""
        return "\n    ".join([f"{where}: {self.verdict()}{first}", self.said, *self._tested()])

    def _tested(self) -> list[str]:
        """The causal test at the point, and what was found at the others."""
        if self.use is None:
            return []
        by_told: dict[Told, list[str]] = {}
        for point, use in self.uses.items():
            by_told.setdefault(use.told, []).append(point_name(point))
        parts = "; ".join(f"{told.value} at {', '.join(points)}" for told, points in by_told.items())
        said = [self.use.verdict()]
        if len(self.uses) > 1:
            said.append(f"tested at {len(self.uses)} points, corrected for their number: {parts}")
        return said


@dataclass(frozen=True)
class Answer:
    """What a preset found in a run.

    Attributes:
        preset: its name.
        question: in words.
        measured: what is decoded, dims `label`, `point`, `place` where the rule has several, `condition`.
        findings: one for each label and place.
    """

    preset: str
    question: str
    measured: Measurement
    findings: list[Finding]


def decoded_at(measured: Measurement) -> dict[str, Judgement]:
    """What a probe's accuracy is worth at every point.

    Args:
        measured: of one label at one place: dims `point`, `condition`.
    """
    return {point: judge(measured.select(point=point)) for point in measured.coords["point"]}


def decodable(judged: Mapping[str, Judgement]) -> list[str]:
    """The points at which it can be read."""
    return [point for point, judgement in judged.items() if judgement.worth is Worth.DECODABLE]


def finding(
    label: str, place: str | None, measured: Measurement, judged: Mapping[str, Judgement], uses: Mapping[str, Use]
) -> Finding:
    """Put together what was found of one label at one place.

    Args:
        label, place: which.
        measured: what is decoded, dims `point`, `condition`.
        judged: what that is worth at every point.
        uses: the causal tests, by point.
    """
    used = [point for point, use in uses.items() if use.told is Told.USED]
    point = next(iter([*used, *decodable(judged)]), None)
    if point is not None:
        return Finding(label, place, point, judged[point], uses)
    trained = np.nan_to_num(measured.select(condition=TRAINED).values, nan=-np.inf)
    worth = [judgement.worth for judgement in judged.values()]
    if Worth.TOKEN_AND_POSITION in worth and not any(each.open for each in worth):
        trained = np.where([each is Worth.TOKEN_AND_POSITION for each in worth], trained, -np.inf)
    best = list(judged)[int(trained.argmax())]
    return Finding(label, place, None, judged[best], uses)
