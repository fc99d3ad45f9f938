"""The answer to a preset: what was measured, and the finding for each label and place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.judgement.probed import Finding
from workbench.measurement import Measurement
from workbench.probes.causal_result import Use


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
    uses: Mapping[tuple[str, str | None, str], Use] = field(default_factory=dict)

    def use(self, finding: Finding) -> Use | None:
        """The causal test at a finding's point, if there was one."""
        return None if finding.point is None else self.uses.get((finding.label, finding.place, finding.point))
