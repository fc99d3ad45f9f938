"""The training loop: a config in, a run folder out; and its progress bar."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from workbench import runs
from workbench.runs import Run, RunConfig
from workbench.training.distributed import Processes
from workbench.training.hint_mixing import Batches
from workbench.training.optimizer_step import learning_rate
from workbench.training.presets import preset_config
from workbench.training.state import Figures, State, TrainingError, forget_states, only_trainer
from workbench.training.trained import Trained
from workbench.training.training_run import TrainingRun
from workbench.util.messages import brief, in_one_line
from workbench.util.progress import Interrupts, duration

StepOfAll = Callable[[tuple[Batches, ...], float], Sequence[Figures | None]]
"""One optimizer step of several runs: the batches of each and the learning rate in, the figures of each out.

None stands for figures that are not finite.
"""


def train(
    config: str | RunConfig | Mapping[str, Any],
    out: str | Path,
    *,
    progress: bool = True,
    track: str | None = None,
    **overrides: Any,
) -> Run:
    """Train one model and write its run folder.

    Ctrl-C stops after the current step and saves; the run can then be opened like any other, and `resume` goes on with
    it, as it does after a kill. Processes that `torchrun` or `accelerate launch` started together train one run: each
    takes its part of every batch, and the result is that of a single process.

    Args:
        config: a preset's name or a whole config (a `RunConfig`, or its fields).
        out: the run folder to make; it must not exist yet, or be empty.
        progress: show a progress bar on standard error.
        track: log for this one too: "tensorboard", in the run folder, or "trackio" (`training.trackers`).
        overrides: fields that replace the preset's or config's, nested with mappings:
            `steps=100, task={"n": 32}, model={"n_layers": 2}`.

    Raises:
        ValueError: if the preset, a field or a value is wrong, or `out` is taken; nothing is written then.
        TrainingError: if the loss stops being finite, or the disk is full; what was trained until then is kept.
    """
    config = preset_config(config, overrides)
    processes = Processes.started(config.device)
    member = TrainingRun(config, Path(out), processes, track)
    train_new(member, progress)
    return member.opened()


def train_new(member: Trained, show: bool, problems: Sequence[str] = ()) -> None:
    """Make the folder of a run or fine-tuning, and train it by itself."""
    member.processes.do(member.create)
    with only_trainer(member.path, processes=member.processes):
        train_alone(member, show, problems)


def resume(path: str | Path, *, progress: bool = True, track: str | None = None) -> Run:
    """Go on training a run that was stopped or killed, from its last whole state.

    On the same device, with the same number of threads and processes, the weights at the end are bit for bit those of a
    run that was never stopped. A finished run is left as it is; one killed before its first state starts afresh.

    Args:
        path: the run folder.
        progress: show a progress bar on standard error.
        track: as `train`.

    Raises:
        ValueError: if there is no run, its config or states do not fit, or another process is training it.
        TrainingError: as `train`.
    """
    try:
        opened: Run | None = runs.load_run(path)
    except ValueError:  # which the main process raises below, in all of them
        opened = None
    processes = Processes.started("cpu" if opened is None or opened.finished else opened.config.device)
    run = processes.do(lambda: opened or runs.load_run(path))
    with ExitStack() as lock:
        last = processes.do(lambda: _lock_and_read(run, lock))
        if last is None:
            return run
        state, problems = last
        member = TrainingRun(run.config, run.path, processes, track)
        if state is not None:
            member.learner.restore(state)
        train_alone(member, progress, problems, resumed=True)
    processes.wait()
    return member.opened()


def _lock_and_read(run: Run, lock: ExitStack) -> tuple[State | None, list[str]] | None:
    """Hold the lock of a run and read its last state (`State.last`); None if there is nothing left to train.

    A run that was killed between writing its final weights and deleting its states has its states deleted. Raises
    ValueError if the state does not fit the run's model, before any model is made.
    """
    if run.finished and not (run.path / runs.STATES).exists():
        return None
    lock.enter_context(only_trainer(run.path))
    if run.finished:
        forget_states(run.path)
        return None
    with in_one_line():
        state, problems = State.last(run.path)
        if state is not None:
            runs.check_shapes(run.config, state.path, runs.MODEL)
        return state, problems


def train_alone(member: Trained, show: bool, problems: Sequence[str] = (), resumed: bool = False) -> None:
    """Train one run or fine-tuning by itself, from the step its learner is at, to the end or until Ctrl-C."""
    step = member.optimizer_step()
    train_together([member], lambda drawn, rate: [step(drawn[0], rate)], show, problems, resumed)


def train_together(
    members: Sequence[Trained], step: StepOfAll, show: bool, problems: Sequence[str] = (), resumed: bool = False
) -> None:
    """Train runs of one shape and schedule together, step by step, to the end or until Ctrl-C: the one loop.

    Args:
        members: the runs, all at the same step; at least one is not done.
        step: one optimizer step of all runs.
        show: show progress.
        problems: damaged states that were passed over, each in a line.
        resumed: whether the runs were resumed.

    Raises:
        TrainingError: if the disk is full, or the loss of a run stopped being finite (the others are trained first).
    """
    active = _active(members)
    first = active[0]
    batches = zip(*[member.batches() for member in members], strict=True)
    try:
        with ExitStack() as opened:
            bar = opened.enter_context(Progress(first.config.steps, show and first.processes.main, first.learner.step))
            interrupts = opened.enter_context(Interrupts())
            for problem in problems:
                bar.say(problem)
            if resumed:
                bar.say(f"going on from step {first.learner.step} of {first.config.steps}")
            for member in active:
                opened.enter_context(member.begin(problems, resumed))
            failures = _train_steps(members, step, batches, bar, interrupts)
    except OSError as error:
        raise TrainingError.cannot_write(first.path, error) from None
    if failures:
        raise TrainingError("; ".join(failures))


def _train_steps(
    members: Sequence[Trained],
    step: StepOfAll,
    batches: Iterable[tuple[Batches, ...]],
    bar: Progress,
    interrupts: Interrupts,
) -> list[str]:
    """Train until all runs are done or Ctrl-C; returns a line for each run whose loss stopped being finite."""
    first = _active(members)[0]
    config, processes = first.config, first.processes
    failures: list[str] = []
    clock = time.perf_counter() - first.learner.seconds
    for number, drawn in enumerate(batches, first.learner.step + 1):
        figures_of_all = step(drawn, learning_rate(config, number - 1))
        for member, its_batches, figures in zip(members, drawn, figures_of_all, strict=True):
            if member.done:
                continue
            if figures is None:
                failures.append(member.fail())
            else:
                member.record(figures, its_batches, time.perf_counter() - clock)
        names = dict.fromkeys(name for member in members for name in member.shown)
        shown = {name: [member.shown[name] for member in members if name in member.shown] for name in names}
        bar.update(number, {name: sum(figures) / len(figures) for name, figures in shown.items()})  # means over runs
        active = _active(members)
        interrupted = processes.any(interrupts.requested)
        if interrupted or (number % config.save_every == 0 and number < config.steps):
            for member in active:
                member.save()
        if interrupted:
            bar.say(f"stopped at step {number} of {config.steps}")
            return failures
        if not active:
            return failures
    for member in _active(members):
        member.finish()
    return failures


def _active(members: Sequence[Trained]) -> list[Trained]:
    """The runs that are still trained."""
    return [member for member in members if not member.done]


SECONDS_BETWEEN_LINES = 5.0


class Progress:
    """The progress of training on standard error; use as a context.

    Args:
        steps: the steps of the run.
        show: whether anything is shown.
        first: the step at which a resumed run begins.
        every: the seconds between two lines, where there is no terminal.
    """

    def __init__(self, steps: int, show: bool, first: int = 0, every: float = SECONDS_BETWEEN_LINES) -> None:
        self.steps, self.first, self.every = steps, first, every
        self.console = Console(stderr=True, quiet=not show, markup=False)
        self.bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self.console,
            disable=not (show and self.console.is_terminal),
        )
        self.started = self.last_line = time.perf_counter()

    def __enter__(self) -> Progress:
        self.bar.start()
        self.id = self.bar.add_task("training", total=self.steps, completed=self.first, figures="")
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Show the step just finished and the latest figures."""
        text = "  ".join(
            f"{name} {value:.1%}" if name == "accuracy" else f"{name} {value:.4f}" for name, value in figures.items()
        )
        self.bar.update(self.id, completed=step, figures=text)
        now = time.perf_counter()
        if not self.console.is_terminal and (now - self.last_line > self.every or step == self.steps):
            self.last_line = now
            left = (now - self.started) / max(1, step - self.first) * (self.steps - step)
            self.console.print(f"step {step}/{self.steps}  {text}  {duration(left)} left", highlight=False)

    def say(self, text: str) -> None:
        """Print a line, whoever wrote parts of it."""
        self.console.print(brief(text), highlight=False)
