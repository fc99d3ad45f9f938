"""The training loop: a config in, a run folder out."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from workbench import runs
from workbench.runs import Run, RunConfig
from workbench.training.data import Batches, training_batches
from workbench.training.member import Member
from workbench.training.presets import preset_config
from workbench.training.processes import Processes
from workbench.training.progress import Progress
from workbench.training.schedule import learning_rate
from workbench.training.state import Figures, TrainingError, cannot_write, forget_states, last_whole, only_trainer
from workbench.training.step import Step


def train(
    config: str | RunConfig | Mapping[str, Any],
    out: str | Path,
    *,
    progress: bool = True,
    tensorboard: bool = False,
    **overrides: Any,
) -> Run:
    """Train one model and write its run folder.

    Ctrl-C stops after the current step and saves; the run can then be opened like any other, and `resume` goes on with
    it, as it does after a kill. Processes that `torchrun` or `accelerate launch` started together train one run: each
    takes its part of every batch, and the run is the one that a single process would have made.

    Args:
        config: a preset's name or a whole config (a `RunConfig`, or its fields).
        out: the run folder to make; it must not exist yet, or be empty.
        progress: show a progress bar on standard error.
        tensorboard: write what is logged for TensorBoard too, under `tensorboard` in the run folder.
        overrides: fields that replace the preset's or config's, nested with mappings:
            `steps=100, task={"n": 32}, model={"n_layers": 2}`.

    Raises:
        ValueError: if the preset, a field or a value is wrong, or `out` is taken; nothing is written then.
        TrainingError: if the loss stops being finite, or the disk is full; what was trained until then is kept.
    """
    config = preset_config(config, overrides)
    processes = Processes.started(config.device)
    member = Member(config, Path(out), processes, tensorboard)
    processes.do(lambda: create(member))
    with ExitStack() as held:
        processes.do(lambda: held.enter_context(only_trainer(member.path)))
        run_alone(member, progress)
    processes.wait()
    return member.opened()


def create(member: Member, stack: Sequence[int] = ()) -> None:
    """Make a run's folder. Raises ValueError if its place is taken, TrainingError if the disk is full."""
    try:
        runs.create(member.path, member.config, stack)
    except OSError as error:
        raise cannot_write(member.path, error) from None


def resume(path: str | Path, *, progress: bool = True, tensorboard: bool = False) -> Run:
    """Go on training a run that was stopped or killed, from its last whole state.

    On the same device, with the same number of threads and processes, the weights at the end are bit for bit those of a
    run that was never stopped. A finished run is left as it is; one killed before its first state starts afresh.

    Args:
        path: the run folder.
        progress: show a progress bar on standard error.
        tensorboard: as `train`.

    Raises:
        ValueError: if there is no run, its config or states do not fit, or another process is training it.
        TrainingError: as `train`.
    """
    processes = Processes.started(_device_for(path))
    run = processes.do(lambda: runs.load_run(path))
    with ExitStack() as held:
        if not processes.do(lambda: _goes_on(run, held)):
            return run
        state, problems = processes.do(lambda: last_whole(run))
        member = Member(run.config, run.path, processes, tensorboard)
        if state is not None:
            member.learner.restore(state)
        run_alone(member, progress, problems, resumed=True)
    processes.wait()
    return member.opened()


def _device_for(path: str | Path) -> str:
    """Where to go on with a run: a finished one needs no device; what cannot be opened, the main process says."""
    try:
        run = runs.load_run(path)
    except ValueError:
        return "cpu"
    return "cpu" if run.finished else run.config.device


def _goes_on(run: Run, held: ExitStack) -> bool:
    """Hold a run if there is something left to train; of one killed at its very end, tidy up."""
    if run.finished and not (run.path / runs.STATES).exists():
        return False
    held.enter_context(only_trainer(run.path))
    if run.finished:
        forget_states(run.path)
    return not run.finished


def run_alone(member: Member, show: bool, problems: Sequence[str] = (), resumed: bool = False) -> None:
    """Train one run, from where its learner is, to the end or until Ctrl-C."""
    step = Step(member.config, member.learner, member.processes)
    batches = ((drawn,) for drawn in training_batches(member.task, member.config, member.learner.step))
    train_members([member], lambda drawn, rate: [step(drawn[0], rate)], batches, show, problems, resumed)


def train_members(
    members: Sequence[Member],
    step: Callable[[tuple[Batches, ...], float], Sequence[Figures | None]],
    batches: Iterator[tuple[Batches, ...]],
    show: bool,
    problems: Sequence[str] = (),
    resumed: bool = False,
) -> None:
    """Train runs of one shape and schedule, step by step together, to the end or until Ctrl-C.

    Args:
        members: the runs, all at the same step; not all of them done.
        step: one step of all: each one's batches and the learning rate to each one's figures (None: not finite).
        batches: for every step, each one's batches.
        show: show progress.
        problems: what is wrong with states that were passed over.
        resumed: whether the runs go on.

    Raises:
        TrainingError: if the disk is full, or the loss of a run stopped being finite (the others are trained first).
    """
    first, processes = next(member for member in members if not member.done), members[0].processes
    config, failures, stopped = first.config, [], False
    try:
        with ExitStack() as opened:
            bar = opened.enter_context(Progress(config.steps, show and processes.main, first.learner.step))
            stop = opened.enter_context(Interrupts())
            for problem in problems:
                bar.say(problem)
            if resumed:
                bar.say(f"going on from step {first.learner.step} of {config.steps}")
            for member in members:
                if not member.done:
                    opened.enter_context(member.begin(problems, resumed))
            clock = time.perf_counter() - first.learner.seconds
            for number, drawn in enumerate(batches, first.learner.step + 1):
                found = step(drawn, learning_rate(config, number - 1))
                for member, its_batches, figures in zip(members, drawn, found, strict=True):
                    if member.done:
                        continue
                    if figures is None:
                        failures.append(member.fail())
                    else:
                        member.record(figures, its_batches, time.perf_counter() - clock)
                bar.update(number, mean_shown(members))
                going_on = [member for member in members if not member.done]
                stopped = processes.any(stop.asked)
                if stopped or number % config.save_every == 0:
                    for member in going_on:
                        member.save()
                if stopped:
                    bar.say(f"stopped at step {number} of {config.steps}")
                if stopped or not going_on:
                    break
            for member in members:
                if not (member.done or stopped):
                    member.finish()
    except OSError as error:
        raise cannot_write(first.path, error) from None
    if failures:
        raise TrainingError("; ".join(failures))


def mean_shown(members: Sequence[Member]) -> dict[str, float]:
    """The figures to show of several runs: the mean of each."""
    names = dict.fromkeys(name for member in members for name in member.shown)
    values = {name: [member.shown[name] for member in members if name in member.shown] for name in names}
    return {name: sum(found) / len(found) for name, found in values.items()}


class Interrupts:
    """Ctrl-C, a cluster's SIGTERM or a closed terminal, kept until the step is done; a second interrupts at once."""

    asked = False
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __enter__(self) -> Interrupts:
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # What `nohup` has ignored stays so.
            heard = [n for n in self.signals if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
            self.before = {number: signal.signal(number, self._ask) for number in heard}
        return self

    def _ask(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
