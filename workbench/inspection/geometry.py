"""The geometry of one vector a sequence over many held-out sequences of a run, beside its controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workbench.capture import Subject
from workbench.instruments import SETS
from workbench.instruments.sets.over_sequences import CannotMeasureError
from workbench.measurement import Measurement
from workbench.measurement.controls import UNTRAINED
from workbench.measurement.controls.untrained import untrained
from workbench.models import AnyModel, OwnModel
from workbench.runs import Run
from workbench.tasks import Batch, Sequences, Task
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

BATCH = 64
SHUFFLED = "shuffled answers"


@dataclass(frozen=True)
class Geometry:
    """What `geometry` measured: dim `layer`.

    Attributes:
        n: on how many sequences.
        measured: name in `SETS` -> of the run.
        controls: the same names -> control -> its measurement: `untrained`, and `shuffled answers` where answers count.
        left_out: the name of what does not apply, or of what these sequences do not allow -> the reason.
    """

    n: int
    measured: dict[str, Measurement]
    controls: dict[str, dict[str, Measurement]]
    left_out: dict[str, str]

    def __getitem__(self, name: str) -> Measurement:
        return self.measured[name]

    def save(self, folder: Path) -> None:
        """Write every measurement, and those of its controls."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, measured in self.measured.items():
            measured.save(folder, name)
            for control, m in self.controls[name].items():
                m.save(folder, f"{name}.{control.replace(' ', '-')}")


@torch.no_grad()
def geometry(
    run: Run,
    *,
    n: int,
    seed: int,
    only: Sequence[str] = (),
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    step: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Geometry:
    """Measure RankMe, LiDAR, DiME and InfoNCE on n held-out sequences, one batch in memory at a time.

    Args:
        run, step: the run, and of which checkpoint; by default the end.
        n: how many sequences; they are drawn from the test side of the split, and of few questions come again.
        seed: of the sequences and of the untrained model.
        only: names in `SETS`; by default all.
        settings: those of each instrument that are not the default ones: `{"infonce": {"pairs": 32}}`.
        progress: is told the share that is done.

    Raises:
        ValueError: if there is no such instrument or setting.
    """
    task, settings, model = run.task(), settings or {}, run.model(step)
    subject = Subject.of(model, task, run.name_at(step))
    models = {"": (model, subject), **_untrained(model, subject, generator(seed, UNTRAINED, run.config.seed, 0))}
    asked = {name: lookup(SETS, name, "instrument of many sequences") for name in dict.fromkeys(only or SETS)}
    reasons = {name: instrument.why_not(subject) for name, instrument in asked.items()}
    result = Geometry(n, {}, {}, {name: reason for name, reason in reasons.items() if reason})
    asked = {name: instrument for name, instrument in asked.items() if name not in result.left_out}
    passes = sum(len(models) + instrument.NEEDS_ANSWERS for instrument in asked.values())
    drawn = _Drawn(task, n, seed, passes, progress)
    for name, instrument in asked.items():
        try:
            measured = _beside_controls(instrument, models, drawn, settings.get(name, {}))
        except CannotMeasureError as error:
            result.left_out[name] = str(error)
            continue
        result.measured[name], result.controls[name] = measured.pop(""), measured
    return result


def _beside_controls(
    instrument: Any, models: Mapping[str, tuple[AnyModel, Subject]], drawn: _Drawn, how: Mapping[str, Any]
) -> dict[str, Measurement]:
    """One measure of the run (named "") and of its controls."""
    measured = {control: instrument.measure(*model, drawn.batches(), **how) for control, model in models.items()}
    if instrument.NEEDS_ANSWERS:
        measured[SHUFFLED] = instrument.measure(*models[""], drawn.batches(), shuffled=True, **how)
    return measured


def _untrained(model: AnyModel, subject: Subject, draws: torch.Generator) -> dict[str, tuple[AnyModel, Subject]]:
    """A model with fresh weights beside it, where anything makes one."""
    if isinstance(model, OwnModel) and model.build is None:
        return {}
    fresh = untrained(model, draws)
    return {UNTRAINED: (fresh, Subject.of(fresh, subject.task, f"{subject.name}, {UNTRAINED}"))}


class _Drawn:
    """The same n sequences for every pass, a batch at a time, which say how much is done of all passes."""

    def __init__(self, task: Task, n: int, seed: int, passes: int, progress: Callable[[float], None] | None) -> None:
        self.task, self.seed, self.progress = task, seed, progress
        self.n = min(n, task.n_given) if isinstance(task, Sequences) else n
        self.done, self.all = 0, self.n * passes

    def batches(self) -> Iterator[Batch]:
        for number, start in enumerate(range(0, self.n, BATCH)):
            size = min(BATCH, self.n - start)
            yield self.task.sample(size, generator(self.seed, "geometry", number), split="test")
            self.done += size
            if self.progress is not None:
                self.progress(self.done / self.all)
