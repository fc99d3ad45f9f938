"""The batches of a run: batch t depends on the run's seed and t alone, whoever draws it and wherever it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch.utils.data import DataLoader, Dataset

from workbench.runs import RunConfig
from workbench.seeds import generator
from workbench.tasks import Batch, Task


@dataclass(frozen=True)
class TrainingBatches(Dataset[Batch]):
    """Batch t of a run, for t = 0, 1, …, from the training side of the task's split."""

    task: Task
    config: RunConfig

    def __getitem__(self, step: int) -> Batch:
        return self.task.sample(self.config.batch_size, generator(self.config.seed, "train", step), split="train")


def training_batches(task: Task, config: RunConfig, first: int = 0) -> Iterator[Batch]:
    """The batches from step `first` to the run's end, drawn here or by the config's worker processes."""
    batches = TrainingBatches(task, config)
    steps = range(first, config.steps)
    if not config.workers:
        return (batches[step] for step in steps)
    return iter(DataLoader(batches, batch_size=None, sampler=steps, num_workers=config.workers, prefetch_factor=4))


def held_out(task: Task, config: RunConfig) -> Batch:
    """The sequences that every evaluation of a run uses, from the test side of the task's split."""
    return task.sample(config.eval_size, generator(config.seed, "evaluation"), split="test")
