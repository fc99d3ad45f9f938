"""What is known of a label: at which points it can be read, and at which of these it is used."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import numpy as np
from pydantic import Field

from workbench.judgement import decodable as reading
from workbench.judgement.against_controls import Stored
from workbench.judgement.decodable import TRAINED, Decodable, Worth
from workbench.judgement.used import Conclusion, Used
from workbench.measurement import Measurement


class Status(StrEnum):
    """What is known of a label."""

    USED = "used"
    UNUSED = "decodable, not used"
    DECODABLE = "decodable"
    TOKEN_AND_POSITION = "explained by token and position"
    NOT_DECODABLE = "not decodable"
    UNDECIDED = "undecided"


class Finding(Stored):
    """The answer for one label at one place.

    Attributes:
        label: its name.
        place: one of the rule's places; None where the rule has one only.
        point: the first at which the label is used; or else the first where it can be read; None where it cannot.
        decodable: what the probe's accuracy is worth at that point, or where it is best.
        tests: point -> the causal test there; one at every point where it can be read, if any was made.
    """

    label: str
    place: str | None
    point: str | None
    decodable: Decodable
    tests: dict[str, Used] = Field(default_factory=dict)

    @classmethod
    def of(cls, label: str, place: str | None, accuracy: Measurement, tests: Mapping[str, Used]) -> Finding:
        """The finding for one label at one place, from its probes and causal tests.

        Args:
            label, place, tests: see `Finding`.
            accuracy: the share decoded, dims `point`, `condition`.
        """
        by_point = {point: reading.judge(accuracy.select(point=point)) for point in accuracy.coords["point"]}
        used = [point for point, test in tests.items() if test.conclusion is Conclusion.USED]
        readable = [point for point, judged in by_point.items() if judged.worth is Worth.DECODABLE]
        point = next(iter([*used, *readable]), None)
        if point is not None:
            return cls(label=label, place=place, point=point, decodable=by_point[point], tests=dict(tests))
        # It is read nowhere: the point with the best accuracy, or where token and position explain it somewhere and
        # nothing is open, the best of those points.
        trained = np.nan_to_num(accuracy.select(condition=TRAINED).values, nan=-np.inf)
        worth = [judged.worth for judged in by_point.values()]
        if Worth.TOKEN_AND_POSITION in worth and not any(each.open for each in worth):
            trained = np.where([each is Worth.TOKEN_AND_POSITION for each in worth], trained, -np.inf)
        best = list(by_point.values())[int(trained.argmax())]
        return cls(label=label, place=place, point=None, decodable=best, tests=dict(tests))

    @property
    def test(self) -> Used | None:
        """The causal test at `point`, if there was one."""
        return None if self.point is None else self.tests.get(self.point)

    @property
    def status(self) -> Status:
        """What is known of the label there."""
        if self.decodable.worth is Worth.TOKEN_AND_POSITION:
            return Status.TOKEN_AND_POSITION
        if self.point is None:
            return Status.UNDECIDED if self.decodable.worth.open else Status.NOT_DECODABLE
        conclusions = {test.conclusion for test in self.tests.values()}
        if Conclusion.USED in conclusions:
            return Status.USED
        return Status.UNUSED if conclusions == {Conclusion.UNUSED} else Status.DECODABLE
