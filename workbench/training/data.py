"""The batches of a run: batch t depends on the run's seed and t alone, whoever draws it and wherever it starts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from workbench.runs import RunConfig
from workbench.seeds import generator
from workbench.tasks import Batch, Task
from workbench.tasks.stream import in_order


def training_batches(task: Task, config: RunConfig, first: int = 0) -> Iterator[Batch]:
    """The batches from step `first` to the run's end, drawn here or by the config's worker processes."""
    return in_order(partial(_training_batch, task, config), range(first, config.steps), config.workers)


def _training_batch(task: Task, config: RunConfig, step: int) -> Batch:
    return task.sample(config.batch_size, generator(config.seed, "train", step), split="train")


def held_out(task: Task, config: RunConfig) -> Batch:
    """The sequences that every evaluation of a run uses, from the test side of the task's split."""
    return task.sample(config.eval_size, generator(config.seed, "evaluation"), split="test")
