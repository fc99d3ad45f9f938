"""The answer to a preset: for each label and place, where it can be read, where it is used, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from workbench.measurement import Measurement
from workbench.measurement.places import at_point, point_name
from workbench.probes.baselines_and_controls import TRAINED
from workbench.probes.causal_verdict import Conclusion, Use
from workbench.probes.decoding_verdict import Judgement, Worth, judge


class Status(Enum):
    """What is known of a label, with its words."""

    USED = "used"
    UNUSED = "decodable, not used"
    DECODABLE = "decodable"
    TOKEN_AND_POSITION = "explained by token and position alone"
    NOT_DECODABLE = "not decodable"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Finding:
    """The answer for one label at one place.

    Attributes:
        label: its name.
        place: one of the rule's places; None where the rule has one only.
        point: the first at which the label is used; or else the first where it can be read; None where it cannot.
        judged: what the probe's accuracy is worth at that point, or where it is best.
        uses: point -> the causal test there; one at every point where it can be read, if any was made.
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
    def status(self) -> Status:
        """What is known of the label there."""
        if self.judged.worth is Worth.TOKEN_AND_POSITION:
            return Status.TOKEN_AND_POSITION
        if self.point is None:
            return Status.UNDECIDED if self.judged.worth.open else Status.NOT_DECODABLE
        conclusions = {use.conclusion for use in self.uses.values()}
        if Conclusion.USED in conclusions:
            return Status.USED
        return Status.UNUSED if conclusions == {Conclusion.UNUSED} else Status.DECODABLE

    def verdict(self) -> str:
        """The status in words."""
        return self.status.value

    def in_words(self) -> str:
        """The verdict, the probe and the causal tests, in a few lines."""
        where = self.label.replace("_", " ") + (f" at {self.place}" if self.place else "")
        first = f", first {at_point(self.point)}" if self.point else ""
        return "\n    ".join([f"{where}: {self.verdict()}{first}", str(self.judged), *self._tested()])

    def _tested(self) -> list[str]:
        """The causal test at the point, and the conclusions at all points tested."""
        if self.use is None:
            return []
        lines = [self.use.verdict()]
        if len(self.uses) > 1:
            by_conclusion: dict[Conclusion, list[str]] = {}
            for point, use in self.uses.items():
                by_conclusion.setdefault(use.conclusion, []).append(point_name(point))
            parts = "; ".join(f"{', '.join(points)}: {c.value}" for c, points in by_conclusion.items())
            lines.append(f"tested at {len(self.uses)} points, corrected for their number: {parts}")
        return lines


@dataclass(frozen=True)
class Answer:
    """The answer to a preset's question about a run.

    Attributes:
        preset: name of the preset.
        question: its question, in words.
        measured: the share decoded, dims `label`, `point`, `place` where the rule has several, `condition`.
        findings: one for each label and place.
    """

    preset: str
    question: str
    measured: Measurement
    findings: list[Finding]


def decoded_at(measured: Measurement) -> dict[str, Judgement]:
    """What a probe's accuracy is worth, by point.

    Args:
        measured: the share decoded of one label at one place: dims `point`, `condition`.
    """
    return {point: judge(measured.select(point=point)) for point in measured.coords["point"]}


def decodable(judged: Mapping[str, Judgement]) -> list[str]:
    """The points at which the label can be read."""
    return [point for point, judgement in judged.items() if judgement.worth is Worth.DECODABLE]


def finding(
    label: str, place: str | None, measured: Measurement, judged: Mapping[str, Judgement], uses: Mapping[str, Use]
) -> Finding:
    """The finding for one label at one place, from its probes and causal tests.

    Args:
        label, place: see `Finding`.
        measured: the share decoded, dims `point`, `condition`.
        judged: point -> what that is worth.
        uses: point -> the causal test.
    """
    used = [point for point, use in uses.items() if use.conclusion is Conclusion.USED]
    point = next(iter([*used, *decodable(judged)]), None)
    if point is not None:
        return Finding(label, place, point, judged[point], uses)
    # It is read nowhere: shown is the point with the best accuracy, or the best that token and position explain.
    trained = np.nan_to_num(measured.select(condition=TRAINED).values, nan=-np.inf)
    worth = [judgement.worth for judgement in judged.values()]
    if Worth.TOKEN_AND_POSITION in worth and not any(each.open for each in worth):
        trained = np.where([each is Worth.TOKEN_AND_POSITION for each in worth], trained, -np.inf)
    best = list(judged)[int(trained.argmax())]
    return Finding(label, place, None, judged[best], uses)
