"""One run while it trains: its learner, its evaluations, checkpoints and final weights."""

from __future__ import annotations

import copy
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from workbench import runs
from workbench.models import Decoder
from workbench.runs import Run, RunConfig
from workbench.tasks import Task
from workbench.training.checkpoints import accuracies_passed, keeps_checkpoint
from workbench.training.curriculum import passes
from workbench.training.data import training_batches
from workbench.training.distributed import Processes
from workbench.training.evaluation import Evaluation
from workbench.training.hint_mixing import Batches, sizes
from workbench.training.optimizer_step import Step, make_optimizer
from workbench.training.state import Figures, Learner, TrainingError, forget_states
from workbench.training.trackers import Tracker, tracker
from workbench.training.trained import Trained
from workbench.training.training_set import memory_of_sets
from workbench.util.memory import check_memory
from workbench.util.seeds import generator, global_draws


class TrainingRun(Trained):
    """One run while it trains, alone or as a member of a seed stack."""

    config: RunConfig

    def __init__(self, config: RunConfig, path: Path, processes: Processes, track: str | None = None) -> None:
        """Raises ValueError if the config cannot be trained on this machine, or by so many processes; as `tracker`."""
        super().__init__(config, path, processes)
        easier, self.task = config.curriculum_tasks(), config.make_task()
        self._check_size(max(task.n_ctx for task in (self.task, *easier)))
        self.learner = make_learner(config, self.task, processes.device)
        for head, n in sizes(config).items():
            if n % processes.count:
                raise ValueError(
                    f"a step has {n} sequences of {head}, which {processes.count} processes cannot share equally"
                )
            for name, objective in self.learner.objectives.items():
                if n < objective.least_batch:
                    raise ValueError(f"{name} needs {objective.least_batch} sequences of {head} in a step, not {n}")
        if config.shift_positions:
            drawn, n_ctx = self.task.sample(16, generator(config.seed, "room"), split="train"), config.model.n_ctx
            if int(self.task.lengths(drawn.tokens).min()) >= n_ctx:
                raise ValueError(
                    f"shift_positions has no room: sequences have {n_ctx} tokens, and the context is as long; make "
                    "model.n_ctx larger"
                )
        self.evaluation = Evaluation(self.task, config)
        self.track, self.tracker = tracker(track), cast(Tracker | None, None)
        self.target: Mapping[str, Any] | None = None

    def _check_size(self, longest: int) -> None:
        """Raise ValueError if the least that training must hold does not fit in this machine's memory.

        It holds the weights, their gradients, two moments and the average, if one is kept (on a GPU, only the weights
        pass through this memory), the logits and residuals of a batch of the longest sequences, and the sequences of an
        evaluation and of a finite training set's pools.
        """
        config, model = self.config, self.config.model
        on_cpu = self.processes.device.type == "cpu"
        numbers = model.n_parameters * (4 + bool(config.average) if on_cpu else 1)
        numbers += config.batch_size * longest * (model.d_vocab + model.n_layers * model.d_model)
        held = config.eval_size * self.task.bytes_each
        if config.train_size is not None:
            held += memory_of_sets(self.task, config)
        check_memory(4 * numbers + held, "training this config")

    def create(self, stack: Sequence[int] = ()) -> None:
        try:
            runs.create(self.path, self.config, stack)
        except OSError as error:
            raise TrainingError.cannot_write(self.path, error) from None

    def optimizer_step(self) -> Step:
        return Step(self.config, self.learner, self.processes)

    @contextmanager
    def begin(self, problems: Sequence[str] = (), resumed: bool = False) -> Iterator[None]:
        """Open the log within this context; where checkpoints are kept, the untrained model is the first."""
        before = torch.get_float32_matmul_precision()
        with super().begin(problems, resumed):
            step = self.learner.step
            if self.track is not None and self.processes.main:
                self.tracker = self.track(self.path, self.config, step if resumed else None)
            if step == 0 and keeps_checkpoint(self.config, 0):
                self._checkpoint()
            try:
                torch.set_float32_matmul_precision("high" if self.config.precision == "tf32" else before)
                yield
            finally:
                torch.set_float32_matmul_precision(before)
                if self.tracker is not None:
                    self.tracker.close()

    def batches(self) -> Iterator[Batches]:
        return training_batches(self.task, self.config, self.learner.step, lambda: self.learner.passed)

    def record(self, figures: Figures, batches: Batches, seconds: float) -> None:
        """Count a finished step, as any; where the config says so, also keep a checkpoint, or stop early."""
        super().record(figures, batches, seconds)
        if keeps_checkpoint(self.config, self.learner.step):
            self._checkpoint()
        if self.target and self.learner.step < self.config.steps:
            self.write(self.target)
            self.finish()

    def write_row(self, row: dict[str, float]) -> None:
        if self.config.train_size is not None:
            row["epoch"] = round(self.learner.step * self.config.batch_size / self.config.train_size, 4)
        super().write_row(row)
        if self.tracker is not None:
            self.tracker.log(row, self.learner.step)

    def evaluate(self) -> dict[str, float]:
        """The figures of an evaluation, by which a run may have reached its target or passed a level."""
        learner, config, figures = self.learner, self.config, dict[str, float]()
        if self.processes.main:
            figures = self.evaluation(learner.evaluated, learner.device, learner.passed)
            accuracy = figures.get("accuracy", -1.0)
            passed = accuracies_passed(config, learner.best, accuracy)
            learner.best = max(learner.best, accuracy)
            if passed:
                self.write({"event": "checkpoint", "step": learner.step, "accuracy": accuracy, "passed": passed})
                self._checkpoint()
            reached = {"event": "target", "step": learner.step, config.stop_on: figures.get(config.stop_on)}
            self.target = reached if config.stops_at(figures) else None
            if passes(config, learner.passed, figures):
                learner.passed += 1
                self.write({"event": "curriculum", "step": learner.step, "passed": learner.passed})
        self.target, learner.passed = self.processes.agree((self.target, learner.passed))
        return figures

    def _checkpoint(self) -> None:
        if self.processes.main:
            step = self.learner.step
            path = self.path / runs.CHECKPOINTS / f"step-{step}.safetensors"
            runs.save_weights(self.learner.evaluated, path, step, self.config)

    def noted(self) -> Mapping[str, str]:
        return runs.noted(self.config)

    def finish(self) -> None:
        """End training: write the final weights and delete the states."""
        self.done = True
        learner = self.learner
        if self.log is None:
            return
        if learner.device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(learner.device)
        else:  # of this process so far, in bytes on macOS and in KiB elsewhere
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        self.log.write(
            {
                "event": "finished",
                "step": learner.step,
                "seconds": round(learner.seconds, 3),
                "tokens": learner.tokens,
                "tokens_per_second": round(learner.tokens / max(learner.seconds, 1e-9), 1),
                "peak_megabytes": round(peak / 1e6, 1),
            }
        )
        self.log.sync()
        runs.save_weights(learner.evaluated, self.path / runs.WEIGHTS, learner.step, self.config)
        forget_states(self.path)

    def opened(self) -> Run:
        """The run folder. Processes that do not write may not see it on their disk, and take its config from memory."""
        return runs.load_run(self.path) if self.processes.main else Run(self.path, self.config)


def make_learner(config: RunConfig, task: Task, device: torch.device) -> Learner:
    """A learner at step 0."""
    with global_draws(generator(config.seed, "objectives").initial_seed()):  # objectives may initialise modules
        model = Decoder(config.model, generator(config.seed, "weights"))
        shape = config.model
        assert shape.d_head is not None
        different = {str(settings): variant for settings, variant in zip(shape.attention, model.attention, strict=True)}
        for variant in different.values():
            variant.check_paths(shape.n_heads, shape.d_head, min(shape.n_ctx, 64))
        model = model.to(device, config.dtype)
        objectives = {name: term.to(device, config.dtype) for name, term in config.make_objectives(task).items()}
    parameters = [p for module in (model, *objectives.values()) for p in module.parameters()]
    # The matrices of all blocks: queries, keys, values and outputs of attention, each of all heads, and the MLPs'.
    linear = [module.weight for module in model.layers.modules() if isinstance(module, nn.Linear)]
    optimizer = make_optimizer(config, parameters, linear if config.optimizer == "muon" else ())
    scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "float16")
    average = copy.deepcopy(model).requires_grad_(False) if config.average else None
    return Learner(model, objectives, optimizer, device, scaler, average=average, decay=config.average)
