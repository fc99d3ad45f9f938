"""What a study measures of one finished run: by instruments on held-out data, and from the training log.

A measure is called with the run. Its settings are its fields, so that what was measured once is known again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from workbench.inspection import inspect_run
from workbench.inspection.learning_curves import single, units_of
from workbench.inspection.over_training import checkpoints
from workbench.measurement import Measurement
from workbench.runs import Run
from workbench.runs.conditions import check_condition
from workbench.studies.contrasts import OVER_TRAINING
from workbench.tasks import Task

HALF, HALF_RIGHT = 0.5, "half right up to"
MOST_POINTS = 40  # of a learning curve

Measure = Callable[[Run], dict[str, Measurement]]


@dataclass(frozen=True)
class Together:
    """Several measures as one."""

    parts: tuple[Measure, ...]

    def __call__(self, run: Run) -> dict[str, Measurement]:
        return {name: measured for part in self.parts for name, measured in part(run).items()}


@dataclass(frozen=True)
class Inspect:
    """Instruments and mechanisms as `workbench inspect --only` measures them, each a mean over held-out sequences.

    A measure of every head is that of the head in focus, which is chosen on other data.

    Attributes:
        names: of instruments and mechanisms; one that does not apply to a run is left out.
        n: sequences of each test condition.
        seed: of those sequences. The run's own is added: each seed is tested on sequences of its own, so that the
            interval over seeds may count the sequences of all of them.
        settings: instrument -> its settings.
        conditions: test conditions in place of the task's own.
        also: further ones, each for the tasks that can draw it: where they are of one length, in the order of lengths.
        step: the training step of a checkpoint to measure instead of the trained model.
        suffix: added to the names, where something is measured with several settings.
        controls: those whose values are wanted too, as `NAME, CONTROL`.
    """

    names: tuple[str, ...]
    n: int = 256
    seed: int = 0
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    conditions: tuple[dict[str, Any], ...] | None = None
    also: tuple[dict[str, Any], ...] = ()
    step: int | None = None
    suffix: str = ""
    controls: tuple[str, ...] = ()

    def __call__(self, run: Run) -> dict[str, Measurement]:
        result = inspect_run(
            run,
            n=self.n,
            seed=self.seed + run.config.seed,
            only=self.names,
            settings=self.settings,
            nulls=self.controls,
            causal=False,
            conditions=self._conditions(run.task()),
            step=self.step,
        )
        measured = {name: result[name] for name in self.names if name in result}
        means = {f"{name}{self.suffix}": each.at_head().mean for name, each in measured.items()}
        for name, each in measured.items():
            means |= {f"{name}{self.suffix}, {control}": each.controls[control].mean for control in self.controls}
        return means

    def _conditions(self, task: Task) -> Sequence[dict[str, Any]] | None:
        """The test conditions; None for the task's own alone."""
        own = task.conditions if self.conditions is None else self.conditions
        further = []
        for condition in self.also:
            if condition not in own:
                with suppress(ValueError):  # the task cannot draw it
                    check_condition(task, condition)
                    further.append(condition)
        if not further:
            return self.conditions
        return sorted([*map(dict, own), *further], key=lambda condition: condition.get("length", 0))


@dataclass(frozen=True)
class ByCondition:
    """Instruments and mechanisms measured on each test condition by itself: one more dim, such as `length`.

    Attributes:
        names: of instruments and mechanisms; one that does not apply to a run is left out.
        condition: the test condition that varies.
        values: of that condition; by default those of the task's own test conditions.
        times_longest: the other condition, `length`, in longest training lengths; None where it is not set.
        n: sequences of each.
        seed: of those sequences.
    """

    names: tuple[str, ...]
    condition: str
    values: tuple[Any, ...] | None = None
    times_longest: int | None = None
    n: int = 128
    seed: int = 0

    def __call__(self, run: Run) -> dict[str, Measurement]:
        task: Any = run.task()
        values = self.values or tuple(condition[self.condition] for condition in task.conditions)
        other = {} if self.times_longest is None else {"length": self.times_longest * task.max_length}
        each = []
        for value in values:
            place = {**other, self.condition: value}
            measured = Inspect(self.names, self.n, self.seed, conditions=(place,))(run)
            each.append(
                {
                    name: m.select(**{dim: label for dim, label in place.items() if dim in m.dims})
                    for name, m in measured.items()
                }
            )
        shared = [name for name in self.names if all(name in quantities for quantities in each)]
        return {name: Measurement.stack([one[name] for one in each], self.condition, values) for name in shared}


@dataclass(frozen=True)
class AtCheckpoints:
    """Instruments at every checkpoint and at the end of training, as `NAME over training`: one more dim, `step`.

    Attributes:
        each: what is measured at each of these steps.
    """

    each: Inspect

    def __call__(self, run: Run) -> dict[str, Measurement]:
        moments = [replace(self.each, step=step)(run) for step in (*checkpoints(run), None)]
        shown = [*checkpoints(run), run.step()]
        return {
            f"{name}{OVER_TRAINING}": Measurement.stack([moment[name] for moment in moments], "step", shown)
            for name in moments[0]
        }


@dataclass(frozen=True)
class HalfRight:
    """The length up to which half of the sequences are right, as `half right up to`, beside `accuracy` by length.

    Between two tested lengths it is interpolated. Where half are right even at the longest, that one stands for it.

    Attributes:
        each: how accuracy is measured.
    """

    each: Inspect

    def __call__(self, run: Run) -> dict[str, Measurement]:
        accuracy = self.each(run)["accuracy"]
        tested = ~np.isnan(accuracy.values)
        lengths, right = np.array(accuracy.coords["length"])[tested].tolist(), accuracy.values[tested].tolist()
        reached = float(lengths[0]) if right[0] >= HALF else 0.0
        for (before, above), (length, share) in pairwise(zip(lengths, right, strict=True)):
            if above < HALF:
                break
            part = 1.0 if share >= HALF else (above - HALF) / (above - share)
            reached = before + part * (length - before)
        return {"accuracy": accuracy, HALF_RIGHT: single(run, HALF_RIGHT, reached, "symbols")}


@dataclass(frozen=True)
class Logged:
    """What the training log says at its end: `accuracy`, `loss`, or any other figure of an evaluation."""

    names: tuple[str, ...]

    def __call__(self, run: Run) -> dict[str, Measurement]:
        latest = run.latest()
        return {name: single(run, name, float(latest[name])) for name in self.names if name in latest}


def perplexity(run: Run) -> dict[str, Measurement]:
    """The exponential of the last test loss, as `perplexity`."""
    return {"perplexity": single(run, "perplexity", float(np.exp(run.latest()["test_loss"])), "")}


@dataclass(frozen=True)
class OverTraining:
    """A figure of the evaluations over the training steps, as `NAME over training`: the dim `step`.

    Of a run that stopped early at what was wanted (`stop_at`), the last figure stands for the steps it did not take. Of
    many evaluations every so many are kept, and the last.
    """

    name: str = "accuracy"

    def __call__(self, run: Run) -> dict[str, Measurement]:
        rows = _rows(run, self.name)
        if not rows:
            return {}
        values, steps = np.array([row[self.name] for row in rows], dtype=float), [row["step"] for row in rows]
        if run.config.stop_at is not None and steps[-1] < run.config.steps:
            untaken = list(range(steps[-1] + run.config.eval_every, run.config.steps, run.config.eval_every))
            steps += [*untaken, run.config.steps]
            values = np.append(values, np.full(len(steps) - len(values), values[-1]))
        every = slice((len(steps) - 1) % (apart := -(-len(steps) // MOST_POINTS)), None, apart)  # the last among them
        steps, values = steps[every], values[every]
        label = f"{self.name}{OVER_TRAINING}"
        about = {"model": run.name}
        n = np.full(len(values), run.config.eval_size)
        return {label: Measurement(label, values, ("step",), {"step": steps}, units_of(self.name), about, n=n)}


@dataclass(frozen=True)
class StepsTo:
    """The step of the first evaluation with this accuracy, as `steps to 99 %`; the last step where there is none."""

    accuracy: float

    def __call__(self, run: Run) -> dict[str, Measurement]:
        reached = (row["step"] for row in _rows(run, "accuracy") if row["accuracy"] >= self.accuracy)
        steps = float(next(reached, run.config.steps))
        name = f"steps to {100 * self.accuracy:g} %"
        return {name: single(run, name, steps, "steps")}


def parameters(run: Run) -> dict[str, Measurement]:
    """The number of learnt parameters, as `parameters`."""
    return {"parameters": single(run, "parameters", float(sum(p.numel() for p in run.model().parameters())), "")}


def _rows(run: Run, name: str) -> list[dict[str, Any]]:
    """The rows of the log with a figure that is not NaN."""
    return [row for row in run.logged() if row.get(name, np.nan) == row.get(name)]
