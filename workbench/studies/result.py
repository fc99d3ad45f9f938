"""The result of a study: every number with its seeds and interval, every contrast, and what differs from the paper."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from pydantic import ValidationError

from workbench.judgement.against_controls import Stored
from workbench.judgement.tuning import Tried, Tuning
from workbench.judgement.verdict import Outcome, Verdict, together
from workbench.judgement.words.studies import sentence
from workbench.measurement import Measurement
from workbench.runs.config import HOW_OFTEN
from workbench.studies.drawing import Drawing
from workbench.studies.stored import DIGITS, LONGEST, pack, unpack_each
from workbench.studies.study import PAPER, Figure, Groups, Published, Scale, Source, Study
from workbench.training.sweeps.plan import Planned, read_plan
from workbench.util.distribution import commit, version
from workbench.util.files import parse_json, read_text
from workbench.util.lookup import check_name, lookup
from workbench.util.messages import brief, first_problem
from workbench.util.settings import as_json, as_text, flat_config
from workbench.util.words import as_it_says

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Differs:
    """A setting that differs from the paper's configuration, and why."""

    setting: str
    ours: str
    papers: str
    why: str


class _Made(Stored):
    """`Result.made`."""

    date: str = "on an unknown day"
    commit: str = ""
    workbench: str = "of an unknown version"
    minutes: float | None = None
    cores: int | None = None
    device: str | None = None
    step_times: dict[str, float] | None = None


class StoredResult(Stored):
    """A result as JSON has it."""

    study: str
    scale: str
    question: str
    source: Source | None
    verdict: str
    seeds: int
    contrasts: list[Outcome]
    published: list[Published]
    groups: dict[str, Any]
    differs: list[Differs]
    tried: list[Tried]
    tuning: Tuning | None = None
    note: str = ""
    made: _Made


@dataclass(frozen=True)
class Result:
    """The result of a study at one scale.

    Attributes:
        name, scale, question, source: the study.
        seeds: of each group.
        groups: the mean of each quantity over the seeds of each group.
        outcomes: the contrasts.
        published: the paper's figures.
        differs: the settings that differ from the paper's.
        tried: the settings that were tried for each group.
        tuning: how the settings that were asked came about; None of an earlier version, which tuned what failed.
        note: what a reader must know to read the published figures beside ours.
        made: what may differ when the study runs again: date, commit and versions, the `minutes` that its runs took to
            train, one after the other, and, of a study that is timed, the machine's cores and `step_times`, the time of
            a training step of each group beside one of them.
    """

    name: str
    scale: Scale
    question: str
    source: Mapping[str, str] | None
    seeds: int
    groups: Groups
    outcomes: Sequence[Outcome]
    published: Sequence[Published]
    differs: Sequence[Differs]
    tried: Sequence[Tried]
    tuning: Tuning | None = None
    made: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    __repr__ = as_it_says

    def __post_init__(self) -> None:
        """Raise ValueError if its name, or its scale, is none of a file."""
        check_name(self.name, "a study")
        check_name(self.scale, "a study's scale")

    @property
    def verdict(self) -> Verdict:
        """On the study."""
        return together(self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        groups = {group: {name: pack(one) for name, one in own.items()} for group, own in self.groups.items()}
        outcomes = [_rounded(one.model_dump(mode="json")) for one in self.outcomes]
        return {
            "study": self.name,
            "scale": self.scale,
            "question": self.question,
            "source": self.source,
            "verdict": self.verdict.value,
            "seeds": self.seeds,
            "contrasts": outcomes,
            "published": [asdict(one) for one in self.published],
            "groups": groups,
            "differs": [asdict(one) for one in self.differs],
            "tried": [_rounded(one.model_dump(mode="json")) for one in self.tried],
            "tuning": self.tuning,
            "note": self.note,
            "made": dict(self.made),
        }

    @staticmethod
    def from_dict(data: Any) -> Result:
        """The result that `to_dict` was of. Raises ValueError in one line if the data, from whomever, is none."""
        try:
            kept = StoredResult.model_validate(data)
        except ValidationError as error:
            raise ValueError(first_problem(error, StoredResult)) from None
        same = ("scale", "question", "seeds", "published", "differs", "tried", "tuning", "note")
        return Result(
            name=kept.study,
            source=None if kept.source is None else asdict(kept.source),
            groups={group: unpack_each(own) for group, own in kept.groups.items()},
            outcomes=kept.contrasts,
            made=kept.made.model_dump(exclude_none=True),
            **{name: getattr(kept, name) for name in same},
        )

    def number(self, published: Published) -> Measurement | None:
        """Our number beside a published one; None where this scale has not measured it."""
        own = self.groups.get(published.group, {}).get(published.quantity)
        if own is None or any(label not in own.coords.get(dim, ()) for dim, label in published.at.items()):
            return None
        number = own.select(**published.at)
        return None if number.dims else number

    @property
    def says(self) -> str:
        """The verdict, and what was found of each contrast, in a line each."""
        lines = [f"{self.name}, {self.scale}: {self.verdict.value}"]
        return "\n".join([*lines, *(f"  {outcome.verdict}: {sentence(outcome)}" for outcome in self.outcomes)])

    def figure(self, quantity: str | None = None) -> Figure:
        """A quantity of every group, by default the first that has at most one dim, beside what was published."""
        every = {name: one for own in self.groups.values() for name, one in own.items()}
        name = next((name for name, one in every.items() if len(one.dims) < 2), "") if quantity is None else quantity
        lookup(every, name, "quantity of this study")
        return Drawing(quantity=name).of_study(self.question, self.published).figure(self.groups)

    def table(self) -> pd.DataFrame:
        """A row for each value of every quantity, with its group and interval."""
        import pandas as pd

        numbers = [(group, name, one) for group, own in self.groups.items() for name, one in own.items()]
        return pd.concat([one.frame().assign(group=group, quantity=name) for group, name, one in numbers])

    def json(self) -> str:
        """All of it, as `result.json` has it, and the number of the form."""
        return as_json({"format": "study/2", **self.to_dict()})


def read_result(path: Path, study: Study) -> Result:
    """The result in a study's folder of one scale.

    Raises:
        ValueError: if the file is missing or damaged, or is the result of another study, whose file has the same name.
    """
    try:
        result = Result.from_dict(parse_json(read_text(path, LONGEST)))
        if (result.name, result.scale) != (path.parent.parent.name, path.parent.name):
            raise ValueError(f"it is of {result.name}, {result.scale}, and not of the folder that it is in")
    except (OSError, ValueError) as error:
        raise ValueError(
            brief(f"{path} is not the result of a study: {error}; delete it, and `workbench study run` writes it anew")
        ) from None
    if study.file:  # those of the papers have names of their own, and their words may change
        check_question(path, result.question, study)
    return result


def check_question(path: Path, question: Any, study: Study) -> None:
    """Raise ValueError unless the result in a file answers a study's question: another's has the same name."""
    if question != study.question:
        raise ValueError(
            brief(
                f"{path} answers another question: {question}; give this study another name, or another --root; if it "
                "is the same study with new words, delete that file, and `workbench study run` writes it anew"
            )
        )


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
    """Each setting's values in all runs, as text, but for the seed and how often something is logged or kept."""
    values: dict[str, dict[str, None]] = {}
    for one in planned:
        config = {name: value for name, value in one.config.without_seed().items() if name not in HOW_OFTEN}
        for name, value in flat_config(config):
            values.setdefault(name, {})[as_text(value)] = None
    return {name: ", ".join(each) for name, each in values.items()}


def _rounded(data: Any) -> Any:
    """JSON's data with no more digits than are the same everywhere."""
    if isinstance(data, dict):
        return {name: _rounded(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_rounded(value) for value in data]
    return float(f"{data:.{DIGITS}g}") if isinstance(data, float) else data


def made_now(minutes: float, step_times: Mapping[str, float]) -> dict[str, Any]:
    """`Result.made` of a study that has just run; its commit ends with `+` where the code was changed since."""
    head, _, changed = (commit() or "").partition("+")  # nothing where it is not in a repository
    made: dict[str, Any] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "commit": head[:12] + "+" * bool(changed)}
    made["workbench"] = version()
    if minutes:
        made["minutes"] = round(minutes, 1)
    if step_times:  # beside what they were timed on
        made["cores"] = os.cpu_count()
        if torch.cuda.is_available():
            made["device"] = torch.cuda.get_device_name()
        made["step_times"] = dict(step_times)
    return made
