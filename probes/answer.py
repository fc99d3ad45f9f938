"""The answer to a preset: what was measured, the finding for each label and place; a label's directions as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from workbench.capture.directions import Directions
from workbench.judgement.decodable import TRAINED
from workbench.judgement.probed import Finding
from workbench.measurement import Measurement
from workbench.probes.baselines_and_controls import ProbeData, Source
from workbench.probes.causal_result import Use
from workbench.probes.fitting import R2
from workbench.probes.positions import Rule
from workbench.tasks import Sequences
from workbench.tasks.labels import TOKEN
from workbench.util.files import check_free

Tested = tuple[str, str | None, str]
"""A label, a place (None where the rule has one only), and a point."""


@dataclass(frozen=True)
class Answer:
    """The answer to a preset's question about a run.

    Attributes:
        preset: name of the preset.
        question: its question, in words.
        measured: the share decoded, dims `label`, `point`, `place` where the rule has several, `condition`.
        findings: one for each label and place.
        uses: label, place (None where the rule has one only), point -> the measurements of the causal test there.
    """

    preset: str
    question: str
    measured: Measurement
    findings: list[Finding]
    uses: Mapping[Tested, Use] = field(default_factory=dict)

    @classmethod
    def of(cls, preset: str, question: str, measured: Measurement, uses: Mapping[Tested, Use]) -> Answer:
        """The answer with its findings: what is measured, and tested, of each label at each place."""
        findings = []
        for label in measured.coords["label"]:
            for place, accuracy in by_place(measured.select(label=label)).items():
                tests = {point: use.judged for (of, at, point), use in uses.items() if (of, at) == (label, place)}
                findings.append(Finding.of(label, place, accuracy, tests))
        return cls(preset, question, measured, findings, uses)

    def use(self, finding: Finding) -> Use | None:
        """The causal test at a finding's point, if there was one."""
        return None if finding.point is None else self.uses.get((finding.label, finding.place, finding.point))


def by_place(measured: Measurement) -> dict[str | None, Measurement]:
    """Place -> the share decoded there; None where the rule has one place only."""
    places = list(measured.coords.get("place", [None]))
    return {place: measured if place is None else measured.select(place=place) for place in places}


FEWEST = 5  # rows of a class
OF_TOKENS = (TOKEN, "next_token", "previous_token")


def check_one(n_models: int, labels: Sequence[str], path: str | Path) -> None:
    """Raise ValueError unless directions of one label of one model are to be saved, in a new file."""
    if n_models > 1 or len(labels) > 1:
        raise ValueError(
            f"directions are saved of one label of one model, not of {', '.join(labels)} of {n_models} models"
        )
    check_free(Path(path), file=True)


def mean_differences(
    answer: Answer, source_of: Callable[[Sequence[str]], Source], positions: Rule, seed: int
) -> Directions:
    """Of each class of a label the mean residual less that of all others, at the point where a probe decodes it best.

    The means are over the rows that the probe was fitted on, of classes that have `FEWEST` of them or more. With 1 of
    it added, the mean of the others becomes that of the class.

    Args:
        answer: of one label at one place.
        source_of: the model's residual at some points, on the sequences of the answer.
        positions, seed: as the label was probed.

    Raises:
        ValueError: if the label is a number or a set, or fewer than two classes are frequent enough.
    """
    measured = answer.measured.select(label=answer.findings[0].label, condition=TRAINED)
    label = answer.findings[0].label
    if measured.units == R2 or "place" in measured.dims:
        raise ValueError(f"directions are of a label's classes, read in one place: {answer.preset} is no such label")
    point = measured.coords["point"][int(measured.values.argmax())]
    source = source_of([point])
    data = ProbeData.of(source, [label], positions, seed)
    if data.y[0].ndim > 2:
        raise ValueError(f"directions are of a label's classes, and {label} is a set of them")
    x, y = (each[data.split.fit].double() for each in (data.x[0, 0], data.y[0][0]))
    x, y = x[y >= 0], y[y >= 0]
    classes, counts = y.long().unique(return_counts=True)
    kept = classes[(counts >= FEWEST) & (counts <= len(y) - FEWEST)]
    if not len(kept):
        raise ValueError(f"no two classes of {label} have {FEWEST} rows or more each: take more sequences (n)")
    vectors = torch.stack([x[y == each].mean(0) - x[y != each].mean(0) for each in kept])
    if label in OF_TOKENS:
        words = source.task.words(kept)
    else:
        named = source.task.classes(label) if isinstance(source.task, Sequences) else ()
        words = [named[each] if each < len(named) else str(each) for each in kept.tolist()]
    return Directions(label, vectors.float(), tuple(f"{label}={word}" for word in words), point)
