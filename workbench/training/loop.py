"""The training loop: a config in, a run folder out."""

from __future__ import annotations

import math
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from workbench import runs
from workbench.models import Decoder
from workbench.runs import Run, RunConfig
from workbench.seeds import generator
from workbench.tasks import Batch, Task, correct
from workbench.training.data import held_out, training_batches
from workbench.training.presets import preset_config
from workbench.training.progress import Progress
from workbench.training.state import Learner, Log, only_writer


class TrainingError(RuntimeError):
    """Training could not go on; the message says where it stopped and what was kept."""


def train(
    config: str | RunConfig | Mapping[str, Any], out: str | Path, *, progress: bool = True, **overrides: Any
) -> Run:
    """Train one model and write its run folder.

    Ctrl-C stops after the current step and saves; the run can then be opened like any other, and `resume` goes on with
    it, as it does after a kill.

    Args:
        config: a preset's name or a whole config (a `RunConfig`, or its fields).
        out: the run folder to make; it must not exist yet, or be empty.
        progress: show a progress bar on standard error.
        overrides: fields that replace the preset's or config's, nested with mappings:
            `steps=100, task={"n": 32}, model={"n_layers": 2}`.

    Raises:
        ValueError: if the preset, a field or a value is wrong, or `out` is taken; nothing is written then.
        TrainingError: if the loss stops being finite; the weights from before that step are saved.
    """
    config = preset_config(config, overrides)
    device = pick_device(config.device)
    path = runs.create(out, config)
    with only_writer(path), deterministic(config.seed):
        _Training(config, path, device).run(progress)
    return runs.load_run(path)


def resume(path: str | Path, *, progress: bool = True) -> Run:
    """Go on training a run that was stopped or killed, from its last whole state.

    On the same device, with the same number of threads, the weights at the end are bit for bit those of a run that was
    never stopped. A finished run is left as it is; one killed before its first state starts afresh.

    Args:
        path: the run folder.
        progress: show a progress bar on standard error.

    Raises:
        ValueError: if there is no run, its config or states do not fit, or another process is training it.
        TrainingError: as `train`.
    """
    run = runs.load_run(path)
    if run.finished:
        return run
    device = pick_device(run.config.device)
    with only_writer(run.path), deterministic(run.config.seed):
        training = _Training(run.config, run.path, device)
        problems = training.learner.restore_last(run.path)
        training.run(progress, problems, resumed=True)
    return runs.load_run(path)


class _Training:
    """One run while it trains."""

    def __init__(self, config: RunConfig, path: Path, device: torch.device) -> None:
        self.config, self.path, self.device = config, path, device
        self.task = config.make_task()
        self.model = Decoder(config.model, generator(config.seed, "weights")).to(device)
        self.objectives = {name: term.to(device) for name, term in config.make_objectives().items()}
        self.parameters = [p for module in (self.model, *self.objectives.values()) for p in module.parameters()]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=config.learning_rate, betas=(0.9, config.beta2), weight_decay=config.weight_decay
        )
        self.scheduler = make_schedule(self.optimizer, config)
        self.learner = Learner(self.model, self.objectives, self.optimizer, self.scheduler, device)
        self.held_out = held_out(self.task, config)
        self.keep = tuple(dict.fromkeys(name for objective in self.objectives.values() for name in objective.needs))
        self.shown: dict[str, float] = {}

    def run(self, show: bool, problems: Sequence[str] = (), resumed: bool = False) -> None:
        """Train to the end, or until Ctrl-C."""
        learner, saved = self.learner, self.learner.step
        started = time.perf_counter() - learner.seconds
        try:
            with Log(self.path / runs.METRICS) as log, Progress(self.config.steps, show) as bar, Interrupts() as stop:
                for problem in problems:
                    bar.say(problem)
                if resumed:
                    bar.say(f"going on from step {learner.step} of {self.config.steps}")
                    log.write({"event": "resumed", "step": learner.step, "problems": list(problems)})
                for batch in training_batches(self.task, self.config, learner.step):
                    try:
                        figures = self.train_step(batch.to(self.device))
                    except TrainingError:
                        learner.save(self.path)
                        raise
                    learner.step += 1
                    learner.seconds = time.perf_counter() - started
                    self._record(figures, log)
                    bar.update(learner.step, self.shown)
                    if stop.asked or learner.step % self.config.save_every == 0:
                        log.sync()
                        learner.save(self.path)
                        saved = learner.step
                    if stop.asked:
                        bar.say(f"stopped at step {learner.step} of {self.config.steps}")
                        return
                log.sync()
                runs.save_weights(self.model, self.path / runs.WEIGHTS, learner.step)
        except OSError as error:
            raise TrainingError(
                f"cannot write {error.filename or self.path}: {error.strerror}; step {saved} is kept, and "
                f"`workbench resume {self.path}` goes on from there"
            ) from None
        shutil.rmtree(self.path / runs.STATES, ignore_errors=True)

    def train_step(self, batch: Batch) -> dict[str, Tensor | float]:
        """One optimizer step. Leaves the weights as they were if the loss or its gradient is not finite."""
        self.model.train()
        with autocast(self.device, self.config.precision):
            logits, kept = self.model(batch.tokens, batch.head, keep=self.keep)
            terms = [objective(logits, kept, batch) for objective in self.objectives.values()]
            loss = torch.stack([term for term, _ in terms]).sum()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.clip)
        if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
            raise TrainingError(
                f"the loss or its gradient is not finite at step {self.learner.step + 1}; the weights of step "
                f"{self.learner.step} are saved in {self.path}; "
                f"try a lower learning_rate than {self.config.learning_rate:g}"
            )
        self.optimizer.step()
        self.scheduler.step()
        figures: dict[str, Tensor | float] = {"loss": loss.detach(), "gradient_norm": norm}
        for _, logged in terms:
            figures.update(logged)
        return figures

    def _record(self, figures: dict[str, Tensor | float], log: Log) -> None:
        config, step = self.config, self.learner.step
        last = step == config.steps
        row: dict[str, float] = {}
        if step % config.log_every == 0 or last or step == 1:
            row = {key: float(figure) for key, figure in figures.items()}
            row["learning_rate"] = float(self.scheduler.get_last_lr()[0])
        if step % config.eval_every == 0 or last:
            row["accuracy"] = evaluate(self.model, self.task, self.held_out, self.device)
        if row:
            self.shown.update({key: row[key] for key in ("loss", "accuracy") if key in row})
            log.write({"step": step, "seconds": round(self.learner.seconds, 3), **row})
        if config.checkpoint_every and step % config.checkpoint_every == 0:
            runs.save_weights(self.model, self.path / runs.CHECKPOINTS / f"step-{step}.safetensors", step)


class Interrupts:
    """Ctrl-C, kept until the step at hand is done; a second one interrupts at once."""

    asked = False

    def __enter__(self) -> Interrupts:
        self.before = None
        if threading.current_thread() is threading.main_thread():
            self.before = signal.signal(signal.SIGINT, self._ask)
        return self

    def _ask(self, *_: Any) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *_: Any) -> None:
        if self.before is not None:
            signal.signal(signal.SIGINT, self.before)


def make_schedule(optimizer: torch.optim.Optimizer, config: RunConfig) -> torch.optim.lr_scheduler.LRScheduler:
    """Learning rate over the run: warm-up then cosine to 0, one cycle, or warm-up then constant."""
    if config.schedule == "onecycle":
        return torch.optim.lr_scheduler.OneCycleLR(
            optimizer, config.learning_rate, total_steps=config.steps + 1, cycle_momentum=False
        )

    def factor(step: int) -> float:
        warm = min(1.0, (step + 1) / (config.warmup + 1))
        if config.schedule == "constant" or step < config.warmup:
            return warm
        done = (step - config.warmup) / max(1, config.steps - config.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@torch.no_grad()
def evaluate(model: Decoder, task: Task, batch: Batch, device: torch.device) -> float:
    """Share of right answers: of scored positions, or of whole sequences, as the task counts."""
    model.eval()
    scores = []
    for start in range(0, len(batch), 128):
        part = batch[start : start + 128].to(device)
        right = correct(model(part.tokens, part.head), part)
        if task.unit == "sequence":
            scores.append(((right == 1) | ~part.loss_mask).all(-1).float())
        else:
            scores.append(right[part.loss_mask])
    return torch.cat(scores).mean().item()


def pick_device(name: str) -> torch.device:
    """The device of that name; "auto" is the GPU if there is one.

    Raises:
        ValueError: if this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise ValueError(f"device {name!r} is not available here; there is: auto, cpu") from None
    return device


def autocast(device: torch.device, precision: str) -> Any:
    return torch.autocast(device.type, torch.bfloat16) if precision == "bfloat16" else nullcontext()


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """What PyTorch draws without a generator (dropout, projections) follows the run's seed and leaves no trace."""
    with torch.random.fork_rng():
        torch.manual_seed(generator(seed, "dropout").initial_seed())
        yield
