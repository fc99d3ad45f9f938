"""Stopping and going on: the whole state of a run in training, its log, and the lock that keeps it to one writer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from workbench import runs
from workbench.files import load_tensors, save_tensors
from workbench.models import Decoder

KEPT = 2  # states: the last, and the one before in case the last is damaged


@dataclass
class Learner:
    """Everything that changes while a run trains."""

    model: Decoder
    objectives: Mapping[str, nn.Module]
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler
    device: torch.device
    step: int = 0
    seconds: float = 0.0

    def save(self, run: Path) -> None:
        """Write the whole state; training that goes on from it is bit for bit the training that never stopped."""
        tensors = runs.weights_of(self.model, runs.MODEL)
        for name, objective in self.objectives.items():
            tensors |= runs.weights_of(objective, f"objective.{name}.")
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value).cpu() for key, value in values.items()}
        tensors["random.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state(self.device)
        metadata = {
            "step": str(self.step),
            "seconds": repr(self.seconds),
            "schedule": json.dumps({k: v for k, v in self.scheduler.state_dict().items() if k != "lr_lambdas"}),
            "rates": json.dumps([group["lr"] for group in self.optimizer.param_groups]),
        }
        save_tensors(run / runs.STATES / f"step-{self.step}.safetensors", tensors, metadata)
        for old in runs.states(run)[KEPT:]:
            old.unlink()

    def restore(self, path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        """Take on a state. Raises ValueError if it is of another model."""
        runs.fill_model(self.model, tensors, path, runs.MODEL)
        for name, objective in self.objectives.items():
            prefix = f"objective.{name}."
            own = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            objective.load_state_dict(own)
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in tensors.items():
            kind, _, rest = key.partition(".")
            if kind == "optimizer":
                index, _, what = rest.partition(".")
                state.setdefault(int(index), {})[what] = value
        groups = self.optimizer.state_dict()["param_groups"]
        for group, rate in zip(groups, json.loads(metadata["rates"]), strict=True):
            group["lr"] = rate
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.scheduler.load_state_dict({**self.scheduler.state_dict(), **json.loads(metadata["schedule"])})
        torch.set_rng_state(tensors["random.cpu"])
        if self.device.type == "cuda" and "random.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random.cuda"], self.device)
        self.step, self.seconds = int(metadata["step"]), float(metadata["seconds"])

    def restore_last(self, run: Path) -> list[str]:
        """Take on the last state that is whole, if there is one; what is wrong with later ones.

        Raises:
            ValueError: if a whole state is of another model than the run's config says.
        """
        problems = []
        for path in runs.states(run):
            try:
                tensors, metadata = load_tensors(path)
            except ValueError as error:
                problems.append(str(error))
                continue
            self.restore(path, tensors, metadata)
            break
        return problems


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
    try:
        with FileLock(run / runs.STATES / ".lock", timeout=0):
            yield
    except Timeout:
        raise ValueError(f"{run} is being trained by another process; wait for it, or stop it first") from None
