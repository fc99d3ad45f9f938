"""The batches of a run: those of step t depend on its seed and t alone, whoever draws them and wherever it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

from workbench.runs import RunConfig
from workbench.seeds import generator
from workbench.tasks import Batch, Task
from workbench.tasks.stream import in_order
from workbench.training.schedule import sizes, turns

Batches = tuple[Batch, ...]
"""What one step trains on: a batch for each output head that has a part in it."""


def training_batches(task: Task, config: RunConfig, first: int = 0) -> Iterator[Batches]:
    """The batches from step `first` to the run's end, drawn here or by the config's worker processes."""
    wanted = sizes(config)
    order = turns(config.mixture, config.steps) if config.mixing == "alternate" else None
    draw = partial(_training_batches, task, config.seed, wanted, order)
    workers = min(config.workers, os.cpu_count() or 1)  # more draw no faster, and a config may ask for any number
    return in_order(draw, range(first, config.steps), workers)


def _training_batches(task: Task, seed: int, wanted: dict[str, int], order: list[str] | None, step: int) -> Batches:
    heads = wanted if order is None else [order[step]]
    return tuple(
        task.sample(wanted[head], generator(seed, "train", step, *_purpose(head)), split="train", head=head)
        for head in heads
    )


def held_out(task: Task, config: RunConfig, head: str = "main") -> Batch:
    """The sequences that every evaluation of a run uses, from the test side of the task's split."""
    return task.sample(config.eval_size, generator(config.seed, "evaluation", *_purpose(head)), split="test", head=head)


def _purpose(head: str) -> tuple[str, ...]:
    return () if head == "main" else (head,)
