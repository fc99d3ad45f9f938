"""Stopping and going on: the whole state of a run in training, its log, and the lock that keeps it to one writer."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from workbench import runs
from workbench.objectives import Objective
from workbench.runs.lock import SECONDS_TO_LET_GO, only_writer
from workbench.runs.model_run import FINETUNE
from workbench.runs.weights import without_prefix
from workbench.training.distributed import Processes
from workbench.util.files import load_tensors, save_tensors
from workbench.util.messages import brief, in_one_line

KEPT = 2  # the number of states kept: the last, and the one before in case the last is damaged
LIVE = "live."  # prefix, in a state, of the weights that train where `runs.MODEL` has their average
PROGRESS = ("step", "seconds", "tokens", "figures", "best", "passed", "scaler")  # what a state holds beside tensors

ADAMW, MUON = ("exp_avg", "exp_avg_sq", "step"), ("momentum_buffer",)  # what each keeps of a parameter


class TrainingError(RuntimeError):
    """Training could not go on; the message says where it stopped and what was kept."""

    @staticmethod
    def cannot_write(run: Path, error: OSError) -> TrainingError:
        """The error for a disk that is full, or a run that was moved away: what was kept, and how to resume."""
        if error.errno == errno.ENOENT and not run.exists():
            return TrainingError(
                f"{brief(run)} was moved or deleted while it trained; what was kept until then is in it, and "
                "`workbench resume` with its new path goes on from there"
            )
        step = max(map(runs.step_of, runs.states(run)), default=None)
        kept = "no state was kept yet" if step is None else f"step {step} is kept"
        begun = any((run / name).is_file() for name in (runs.CONFIG, FINETUNE))
        then = f"`workbench resume {run}` goes on from there" if begun else "nothing was written"
        return TrainingError(brief(f"cannot write {error.filename or run}: {error.strerror}; {kept}, and {then}"))


Figures = dict[str, Tensor | float]


@dataclass
class Learner:
    """Everything that changes while a run trains.

    Attributes:
        step, seconds, tokens: its progress in optimizer steps, wall time, and tokens trained on.
        figures: the latest value of each figure; those of a hint are from its latest turn.
        best: the highest held-out accuracy so far.
        passed: how many steps of a curriculum are behind it.
        average, decay: an exponential moving average of the model's weights, where the run keeps one, and its decay.
        unseen: of each step on a GPU since the last `look`, the step, tokens and figures before it.
        n_finite: how many of these came before the first whose gradient was not finite, on the device.
    """

    model: Any
    objectives: Mapping[str, Objective]
    optimizer: torch.optim.Optimizer
    device: torch.device
    scaler: torch.amp.GradScaler
    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    figures: Figures = field(default_factory=dict)
    best: float = -1.0
    passed: int = 0
    average: Any = None
    decay: float = 0.0
    unseen: list[tuple[int, int, Figures]] = field(default_factory=list)
    n_finite: Tensor | None = None

    @property
    def evaluated(self) -> Any:
        """The model that is evaluated and kept: the average, where there is one."""
        return self.model if self.average is None else self.average

    def count(self, figures: Figures, tokens: int, seconds: float) -> None:
        """Count a finished step, and move the average, if there is one, towards its weights.

        The average's decay is at most (1 + step) / (10 + step), so that it soon forgets the weights that it began with.

        Args:
            figures: the loss and what else the step measured.
            tokens: how many it trained on.
            seconds: the wall time so far.
        """
        self.step, self.tokens, self.seconds = self.step + 1, self.tokens + tokens, seconds
        self.figures |= figures
        if self.average is not None:
            move = get_ema_multi_avg_fn(min(self.decay, (1 + self.step) / (10 + self.step)))
            move([*self.average.parameters()], [*self.model.parameters()], self.step)

    def look(self) -> bool:
        """Whether the gradient of every step since the last look was finite; if not, go back to before the first.

        Neither that step nor any after it has changed the weights (see `Step`).
        """
        unseen, self.unseen = self.unseen, []
        finite = len(unseen) if self.n_finite is None else int(self.n_finite)
        self.n_finite = None
        if finite < len(unseen):
            self.step, self.tokens, self.figures = unseen[finite]
            return False
        return True

    @property
    def needs(self) -> tuple[str, ...]:
        """The activations that its objectives read, in the order in which a decoder computes them."""
        return tuple(dict.fromkeys(name for objective in self.objectives.values() for name in objective.needs))

    @cached_property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that the optimizer changes, in its order."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]

    def save(self, run: Path, processes: Processes, noted: Mapping[str, str] | None = None) -> None:
        """Write the whole state; training that is resumed from it equals training that never stopped, bit for bit.

        Args:
            run: the run folder.
            processes: those that train, of which the main one writes.
            noted: what the state says of the config of a run (`runs.noted`).
        """
        figures = processes.means(self.figures)
        if not processes.main:
            return
        tensors = runs.weights_of(self.evaluated, runs.MODEL)
        if self.average is not None:
            tensors |= runs.weights_of(self.model, LIVE)
        for name, objective in self.objectives.items():
            tensors |= runs.weights_of(objective, f"objective.{name}.")
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{key}": torch.as_tensor(value).cpu() for key, value in values.items()}
        progress = {name: getattr(self, name) for name in PROGRESS}
        progress |= {"figures": figures, "scaler": self.scaler.state_dict()}
        metadata = {name: json.dumps(value) for name, value in progress.items()} | dict(noted or {})
        save_tensors(run / runs.STATES / f"step-{self.step}.safetensors", tensors, metadata)
        kept = [path for path in runs.states(run) if runs.step_of(path) <= self.step][:KEPT]
        for path in set(runs.states(run)) - set(kept):  # older states, and damaged ones of later steps
            path.unlink()

    @in_one_line()
    def restore(self, state: State) -> None:
        """Continue from a state. Raises ValueError if it belongs to another run, or lacks what training needs."""
        tensors, progress = state.tensors, self._check(state)
        self.fill(state)
        if self.average is not None:
            runs.fill_model(self.model, tensors, state.path, LIVE)
        for name, objective in self.objectives.items():
            objective.load_state_dict(without_prefix(f"objective.{name}.", tensors))
        moments: dict[int, dict[str, Tensor]] = {}
        for key, value in without_prefix("optimizer.", tensors).items():
            index, _, moment = key.partition(".")
            moments.setdefault(int(index), {})[moment] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        try:
            self.scaler.load_state_dict(progress.pop("scaler"))
        except (KeyError, RuntimeError, TypeError) as error:
            raise ValueError(f"{state.path} is no state of this run: {error}") from None
        for name, value in progress.items():
            setattr(self, name, value)

    def fill(self, state: State) -> None:
        """Put the weights of a state into the model that is evaluated. Raises ValueError if they do not fit."""
        runs.fill_model(self.evaluated, state.tensors, state.path, runs.MODEL)

    def _check(self, state: State) -> dict[str, Any]:
        """The progress that a state holds, after checking everything in it: anyone may have written it."""
        wrong = f"{state.path} is no state of this run"
        # States of earlier versions also hold the generators that dropout drew from; now it is drawn by step.
        tensors = {k: x for k, x in state.tensors.items() if not k.startswith((runs.MODEL, "random."))}
        expected = self._expected(tensors)
        for key in sorted(expected.keys() | tensors.keys()):
            want, got = expected.get(key), tensors.get(key)
            if want is None or got is None or (want.dtype, want.shape) != (got.dtype, got.shape):
                raise ValueError(f"{wrong}: {key} is missing, or has another type or shape than its config says")
        try:
            metadata = {"passed": "0", **state.metadata}  # states of earlier versions had no curriculum
            progress = {name: json.loads(metadata[name]) for name in PROGRESS}
        except (KeyError, ValueError, RecursionError):
            raise ValueError(f"{wrong}: it does not say how far it is") from None
        figures, numbers = progress["figures"], [progress[name] for name in ("step", "seconds", "tokens", "best")]
        if not isinstance(progress["passed"], int) or progress["passed"] < 0:
            raise ValueError(f"{wrong}: it does not say how far its curriculum is")
        numbers += figures.values() if isinstance(figures, dict) else [None]
        if not all(isinstance(number, int | float) for number in numbers) or progress["step"] != runs.step_of(
            state.path
        ):
            raise ValueError(f"{wrong}: it does not say how far it is")
        steps_done = [float(x) for key, x in tensors.items() if key.startswith("optimizer.") and key.endswith(".step")]
        if not all(0 <= steps <= progress["step"] for steps in steps_done):
            raise ValueError(f"{wrong}: its optimizer has done other steps")
        return progress

    def _expected(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What a state must hold beside the model that is evaluated: all else that is learned, and the moments.

        A parameter that had no gradient yet has no moments; the tensors of the state tell which have any.
        """
        expected = {} if self.average is None else runs.weights_of(self.model, LIVE)
        for name, objective in self.objectives.items():
            expected |= runs.weights_of(objective, f"objective.{name}.")
        moments = [
            MUON if "momentum" in group else ADAMW for group in self.optimizer.param_groups for _ in group["params"]
        ]
        for index, (parameter, names) in enumerate(zip(self.parameters, moments, strict=True)):
            of_one = {f"optimizer.{index}.{x}": torch.zeros(()) if x == "step" else parameter for x in names}
            if of_one.keys() & tensors.keys():
                expected |= of_one
        return expected


@dataclass(frozen=True)
class State:
    """The complete state of a training run, as it was read from its file."""

    path: Path
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]

    @staticmethod
    def last(run: Path) -> tuple[State | None, list[str]]:
        """The last state in a folder that is not damaged, if there is one; and a line for each later one that is."""
        problems: list[str] = []
        for path in runs.states(run):
            try:
                return State(path, *load_tensors(path)), problems
            except ValueError as error:
                problems.append(brief(error))
        return None, problems


def forget_states(run: Path) -> None:
    """Delete the training states of a run that has its final weights.

    The stack's file is deleted last: if it still exists, an earlier deletion was interrupted.
    """
    for path in set((run / runs.STATES).glob("*")) - {run / runs.STATES / runs.STACK}:
        path.unlink(missing_ok=True)
    shutil.rmtree(run / runs.STATES, ignore_errors=True)


@contextmanager
def only_trainer(run: Path, wait: float = SECONDS_TO_LET_GO, processes: Processes | None = None) -> Iterator[None]:
    """Hold the lock of a run that is to be trained, as `only_writer`.

    Args:
        run, wait: as there.
        processes: all those that train the run; at the end they wait for one another.

    Raises:
        ValueError: if another process holds it.
        TrainingError: if the disk is full.
    """
    with ExitStack() as lock:

        def hold() -> None:
            try:
                lock.enter_context(only_writer(run, wait))
            except OSError as error:
                raise TrainingError.cannot_write(run, error) from None

        if processes is None:
            hold()
        else:
            processes.do(hold)
        yield
    if processes is not None:
        processes.wait()
