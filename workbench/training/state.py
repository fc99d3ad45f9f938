"""Stopping and going on: the whole state of a run in training, its log, and the lock that keeps it to one writer."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from workbench import runs
from workbench.files import load_tensors, save_tensors
from workbench.models import Decoder
from workbench.objectives import Objective
from workbench.training.processes import Processes

KEPT = 2  # states: the last, and the one before in case the last is damaged


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

    def random_state(self) -> dict[str, Tensor]:
        """The states of the generators that dropout and projections draw from."""
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def set_random_state(self, state: Mapping[str, Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        if self.device.type == "cuda" and "cuda" in state:
            torch.cuda.set_rng_state(state["cuda"], self.device)

    def save(self, run: Path, processes: Processes) -> None:
        """Write the whole state; training that goes on from it is bit for bit the training that never stopped."""
        everywhere = processes.gather(self.random_state())
        if not processes.main:
            return
        tensors = runs.weights_of(self.model, runs.MODEL)
        for name, objective in self.objectives.items():
            tensors |= runs.weights_of(objective, f"objective.{name}.")
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value).cpu() for key, value in values.items()}
        for rank, state in enumerate(everywhere):
            tensors |= {f"random.{rank}.{kind}": value for kind, value in state.items()}
        progress = {
            "step": self.step,
            "seconds": self.seconds,
            "tokens": self.tokens,
            "figures": {name: float(figure) for name, figure in self.figures.items()},
            "best": self.best,
            "scaler": self.scaler.state_dict(),
        }
        metadata = {name: json.dumps(value) for name, value in progress.items()}
        save_tensors(run / runs.STATES / f"step-{self.step}.safetensors", tensors, metadata)
        for old in runs.states(run)[KEPT:]:
            old.unlink()

    def restore(self, state: State, rank: int) -> None:
        """Take on a state. Raises ValueError if it is of another run."""
        runs.fill_model(self.model, state.tensors, state.path, runs.MODEL)
        try:
            self._restore(state, rank)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"{state.path} is no state of this run: {error}") from None

    def _restore(self, state: State, rank: int) -> None:
        tensors = state.tensors
        for name, objective in self.objectives.items():
            objective.load_state_dict(_under(f"objective.{name}.", tensors))
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in _under("optimizer.", tensors).items():
            index, _, what = key.partition(".")
            if value.shape not in ((), self.parameters[int(index)].shape):
                raise ValueError(f"{key} is of another shape than its parameter")
            moments.setdefault(int(index), {})[what] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        random = _under(f"random.{rank}.", tensors)
        if random:  # there is none for a process that was not there before
            self.set_random_state(random)
        for name in ("step", "seconds", "tokens", "figures", "best"):
            setattr(self, name, json.loads(state.metadata[name]))
        self.scaler.load_state_dict(json.loads(state.metadata["scaler"]))


@dataclass(frozen=True)
class State:
    """A whole state, read."""

    path: Path
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]


def last_whole(run: Path) -> tuple[State | None, list[str]]:
    """The last state that is whole, if there is one; and what is wrong with later ones."""
    problems: list[str] = []
    for path in runs.states(run):
        try:
            return State(path, *load_tensors(path)), problems
        except ValueError as error:
            problems.append(str(error))
    return None, problems


def forget_states(run: Path) -> None:
    """Remove the states of a run that has its final weights."""
    shutil.rmtree(run / runs.STATES, ignore_errors=True)


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


class Log:
    """metrics.jsonl, appended to line by line; a line that a kill cut short is taken off first."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        written = path.read_bytes()
        os.ftruncate(self.file, written.rfind(b"\n") + 1)
        os.lseek(self.file, 0, os.SEEK_END)

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: Any) -> None:
        os.close(self.file)

    def write(self, row: Mapping[str, Any]) -> None:
        line = (json.dumps(row) + "\n").encode()
        while line:
            line = line[os.write(self.file, line) :]

    def sync(self) -> None:
        """Make sure that what was written survives a power cut."""
        os.fsync(self.file)


@contextmanager
def only_writer(run: Path) -> Iterator[None]:
    """Hold the run folder, or raise ValueError if another process that lives does."""
    lock = FileLock(run / runs.STATES / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"{run} is being trained by another process; wait for it, or stop it first") from None
    try:
        yield
    finally:
        lock.release()
