"""Stopping and going on: the whole state of a run in training, its log, and the lock that keeps it to one writer."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench import runs
from workbench.models import Decoder
from workbench.objectives import Objective
from workbench.runs import Run
from workbench.runs.lock import SECONDS_TO_LET_GO, only_writer
from workbench.training.processes import Processes
from workbench.util.files import load_tensors, save_tensors
from workbench.util.memory import check_memory
from workbench.util.messages import brief, in_one_line

KEPT = 2  # states: the last, and the one before in case the last is damaged


PROGRESS = ("step", "seconds", "tokens", "figures", "best", "scaler")  # of a learner, beside its tensors


class TrainingError(RuntimeError):
    """Training could not go on; the message says where it stopped and what was kept."""


def cannot_write(run: Path, error: OSError) -> TrainingError:
    """What to say where the disk takes no more."""
    step = max(map(runs.step_of, runs.states(run)), default=None)
    kept = "no state was kept yet" if step is None else f"step {step} is kept"
    then = f"`workbench resume {run}` goes on from there" if (run / runs.CONFIG).is_file() else "nothing was written"
    return TrainingError(brief(f"cannot write {error.filename or run}: {error.strerror}; {kept}, and {then}"))


Figures = dict[str, Tensor | float]


@dataclass
class Learner:
    """Everything that changes while a run trains.

    Attributes:
        step, seconds, tokens: how far it is: optimizer steps, wall time, tokens trained on.
        figures: the latest of every name; a hint's are from its latest turn.
        best: the highest held-out accuracy so far.
    """

    model: Decoder
    objectives: Mapping[str, Objective]
    optimizer: torch.optim.Optimizer
    device: torch.device
    scaler: torch.amp.GradScaler
    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    figures: Figures = field(default_factory=dict)
    best: float = -1.0

    @cached_property
    def parameters(self) -> list[nn.Parameter]:
        """All that the optimizer changes: the model's parameters, then the objectives'."""
        return [p for module in (self.model, *self.objectives.values()) for p in module.parameters()]

    def save(self, run: Path, processes: Processes) -> None:
        """Write the whole state; training that goes on from it is bit for bit the training that never stopped."""
        figures = processes.means(self.figures)
        if not processes.main:
            return
        tensors = runs.weights_of(self.model, runs.MODEL)
        for name, objective in self.objectives.items():
            tensors |= runs.weights_of(objective, f"objective.{name}.")
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value).cpu() for key, value in values.items()}
        progress = {name: getattr(self, name) for name in PROGRESS}
        progress |= {"figures": figures, "scaler": self.scaler.state_dict()}
        metadata = {name: json.dumps(value) for name, value in progress.items()}
        save_tensors(run / runs.STATES / f"step-{self.step}.safetensors", tensors, metadata)
        kept = [path for path in runs.states(run) if runs.step_of(path) <= self.step][:KEPT]
        for other in set(runs.states(run)) - set(kept):  # older ones, and damaged ones from beyond this step
            other.unlink()

    @in_one_line()
    def restore(self, state: State) -> None:
        """Take on a state. Raises ValueError if it is of another run, or no state that training can go on from."""
        tensors, progress = state.tensors, self._check(state)
        runs.fill_model(self.model, tensors, state.path, runs.MODEL)
        for name, objective in self.objectives.items():
            objective.load_state_dict(_under(f"objective.{name}.", tensors))
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in _under("optimizer.", tensors).items():
            index, _, what = key.partition(".")
            moments.setdefault(int(index), {})[what] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        try:
            self.scaler.load_state_dict(progress.pop("scaler"))
        except (KeyError, RuntimeError, TypeError) as error:
            raise ValueError(f"{state.path} is no state of this run: {error}") from None
        for name, value in progress.items():
            setattr(self, name, value)

    def _check(self, state: State) -> dict[str, Any]:
        """How far a state is, once it is sure to hold what training needs: anyone can write one."""
        wrong = f"{state.path} is no state of this run"
        # Earlier versions kept the generators that dropout drew from; it has been drawn by step since.
        tensors = {k: x for k, x in state.tensors.items() if not k.startswith((runs.MODEL, "random."))}
        expected: dict[str, Tensor] = {}
        for name, objective in self.objectives.items():
            expected |= runs.weights_of(objective, f"objective.{name}.")
        for index, parameter in enumerate(self.parameters):
            moments = {f"optimizer.{index}.{key}": parameter for key in ("exp_avg", "exp_avg_sq")}
            if moments.keys() & tensors.keys():  # a parameter that had no gradient yet has none of them
                expected |= moments | {f"optimizer.{index}.step": torch.zeros(())}
        for key in sorted(expected.keys() | tensors.keys()):
            want, got = expected.get(key), tensors.get(key)
            if want is None or got is None or (want.dtype, want.shape) != (got.dtype, got.shape):
                raise ValueError(f"{wrong}: {key} is missing, or not as its config has it")
        try:
            progress = {name: json.loads(state.metadata[name]) for name in PROGRESS}
        except (KeyError, ValueError, RecursionError):
            raise ValueError(f"{wrong}: it does not say how far it is") from None
        step, figures = progress["step"], progress["figures"]
        numbers = [progress[name] for name in ("step", "seconds", "tokens", "best")]
        numbers += figures.values() if isinstance(figures, dict) else [None]
        if not all(isinstance(number, int | float) for number in numbers) or step != runs.step_of(state.path):
            raise ValueError(f"{wrong}: it does not say how far it is")
        done = [float(x) for key, x in tensors.items() if key.startswith("optimizer.") and key.endswith(".step")]
        if not all(0 <= steps <= step for steps in done):
            raise ValueError(f"{wrong}: its optimizer has done other steps")
        return progress


@dataclass(frozen=True)
class State:
    """A whole state, read."""

    path: Path
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


@in_one_line()
def last_whole(run: Run) -> tuple[State | None, list[str]]:
    """The last state that is whole, if there is one; and what is wrong with later ones.

    Raises:
        ValueError: if it is of another model than the run's config says; nothing of that size was made yet.
    """
    problems: list[str] = []
    for path in runs.states(run.path):
        try:
            state = State(path, *load_tensors(path))
        except ValueError as error:
            problems.append(brief(error))
            continue
        runs.check_shapes(run.config, path, runs.MODEL)
        return state, problems
    return None, problems


def forget_states(run: Path) -> None:
    """Remove the states of a run that has its final weights; last what says that there may be others to remove."""
    for path in set((run / runs.STATES).glob("*")) - {run / runs.STATES / runs.STACK}:
        path.unlink(missing_ok=True)
    shutil.rmtree(run / runs.STATES, ignore_errors=True)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


class Log:
    """metrics.jsonl, appended to line by line; a line that a kill cut short is taken off first."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        check_memory(os.fstat(self.file).st_size, str(path))
        written = path.read_bytes()
        os.ftruncate(self.file, written.rfind(b"\n") + 1)
        os.lseek(self.file, 0, os.SEEK_END)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.file)

    def write(self, row: Mapping[str, Any]) -> None:
        line = (json.dumps(row) + "\n").encode()
        try:
            while line:
                line = line[os.write(self.file, line) :]
        except OSError as error:
            error.filename = str(self.path)
            raise

    def sync(self) -> None:
        """Make sure that what was written survives a power cut."""
        os.fsync(self.file)


@contextmanager
def only_trainer(run: Path, wait: float = SECONDS_TO_LET_GO) -> Iterator[None]:
    """`runs.only_writer`, for who is about to train.

    Raises:
        ValueError: if another process that lives holds it.
        TrainingError: if the disk is full.
    """
    with ExitStack() as held:
        try:
            held.enter_context(only_writer(run, wait))
        except OSError as error:
            raise cannot_write(run, error) from None
        yield
