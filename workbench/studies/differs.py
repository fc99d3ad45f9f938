"""The settings in which a study's runs differ from the paper's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.runs import RunConfig
from workbench.runs.config import HOW_OFTEN
from workbench.studies.study import PAPER, Scale, Study
from workbench.training.sweeps.plan import Planned, read_plan
from workbench.util.settings import as_text, flat_config


@dataclass(frozen=True)
class Differs:
    """A setting that differs from the paper's configuration, and why."""

    setting: str
    ours: str
    papers: str
    why: str


def differences(study: Study, scale: Scale, planned: Sequence[Planned]) -> Iterator[Differs]:
    """The settings in which a scale differs from the paper's: as many values on each side as its runs have."""
    if scale == PAPER or PAPER not in study.runs or not planned:
        return
    ours, papers = _settings(planned), _settings(read_plan(study.plan(PAPER, 1)).runs)
    for name in sorted({*ours, *papers}):
        own, theirs = ours.get(name, "–"), papers.get(name, "–")
        if own != theirs:
            yield Differs(name, own, theirs, study.reason(name, scale))


def _settings(planned: Sequence[Planned]) -> dict[str, str]:
    """Each setting's values in all runs, as text."""
    values: dict[str, dict[str, None]] = {}
    for one in planned:
        for name, value in flat_config(_config(one.config)):
            values.setdefault(name, {})[as_text(value)] = None
    return {name: ", ".join(each) for name, each in values.items()}


def _config(config: RunConfig) -> dict[str, Any]:
    return {name: value for name, value in config.without_seed().items() if name not in HOW_OFTEN}
