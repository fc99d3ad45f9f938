"""The training loop: a config in, a run folder out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
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


class TrainingError(RuntimeError):
    """Training could not go on; the message says where it stopped and what was kept."""


def train(
    config: str | RunConfig | Mapping[str, Any], out: str | Path, *, progress: bool = True, **overrides: Any
) -> Run:
    """Train one model and write its run folder.

    Ctrl-C stops after the current step and saves what has been learned; the run can then be opened like any other.

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
    with deterministic(config.seed):
        _Training(config, path, device).run(progress)
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
        self.held_out = held_out(self.task, config)
        self.keep = tuple(dict.fromkeys(name for objective in self.objectives.values() for name in objective.needs))
        self.step = 0
        self.shown: dict[str, float] = {}

    def run(self, show: bool) -> None:
        started = time.perf_counter()
        with (self.path / runs.METRICS).open("w", encoding="utf-8") as log, Progress(self.config.steps, show) as bar:
            try:
                for batch in training_batches(self.task, self.config, self.step):
                    figures = self.train_step(batch.to(self.device))
                    self.step += 1
                    self._record(figures, log, time.perf_counter() - started)
                    bar.update(self.step, self.shown)
            except KeyboardInterrupt:
                bar.say(f"stopped at step {self.step} of {self.config.steps}; saving")
            finally:
                # Whatever ended training, what was learned up to the last whole step is kept.
                runs.save_weights(self.model, self.path / runs.WEIGHTS, self.step)

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
                f"the loss or its gradient is not finite at step {self.step + 1}; the weights of step {self.step} are "
                f"saved in {self.path}; try a lower learning_rate than {self.config.learning_rate:g}"
            )
        self.optimizer.step()
        self.scheduler.step()
        figures: dict[str, Tensor | float] = {"loss": loss.detach(), "gradient_norm": norm}
        for _, logged in terms:
            figures.update(logged)
        return figures

    def _record(self, figures: dict[str, Tensor | float], log: Any, seconds: float) -> None:
        config, last = self.config, self.step == self.config.steps
        row: dict[str, float] = {}
        if self.step % config.log_every == 0 or last or self.step == 1:
            row = {key: float(figure) for key, figure in figures.items()}
            row["learning_rate"] = float(self.scheduler.get_last_lr()[0])
        if self.step % config.eval_every == 0 or last:
            row["accuracy"] = evaluate(self.model, self.task, self.held_out, self.device)
        if row:
            self.shown.update({key: row[key] for key in ("loss", "accuracy") if key in row})
            log.write(json.dumps({"step": self.step, "seconds": round(seconds, 3), **row}) + "\n")
            log.flush()
        if config.checkpoint_every and self.step % config.checkpoint_every == 0:
            runs.save_weights(self.model, self.path / runs.CHECKPOINTS / f"step-{self.step}.safetensors", self.step)


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
