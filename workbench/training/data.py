"""The batches of a run: those of step t depend on its seed and t alone, whoever draws them and wherever it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import islice

from workbench.runs import RunConfig
from workbench.tasks import Batch, Task, distinct
from workbench.tasks.stream import in_order
from workbench.training.schedule import sizes, turns
from workbench.util.seeds import generator

AT_ONCE = 16

Batches = tuple[Batch, ...]
"""What one step trains on: a batch for each output head that has a part in it."""


def training_batches(task: Task, config: RunConfig, first: int = 0) -> Iterator[Batches]:
    """The batches from step `first` to the run's end, drawn here or by the config's worker processes."""
    workers = min(config.workers, os.cpu_count() or 1)  # more draw no faster, and a config may ask for any number
    draw = partial(_training_batches, task, config.seed)
    drawn = in_order(draw, _wanted(config, first), workers)
    return drawn if workers else _some_at_once(drawn)


def _some_at_once(batches: Iterator[Batches]) -> Iterator[Batches]:
    """The same batches, drawn a few steps ahead: between two optimizer steps each alone takes twice the time."""
    while some := list(islice(batches, AT_ONCE)):
        yield from some


def _wanted(config: RunConfig, first: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Each step with how many sequences of which heads it has."""
    of_heads, turn = sizes(config), turns(config.mixture, first)
    for step in range(first, config.steps):
        head = next(turn) if config.mixing == "alternate" else None
        yield step, of_heads if head is None else {head: of_heads[head]}


def _training_batches(task: Task, seed: int, step_and_sizes: tuple[int, dict[str, int]]) -> Batches:
    step, wanted = step_and_sizes
    return tuple(
        task.sample(n, generator(seed, "train", step, *_purpose(head)), split="train", head=head)
        for head, n in wanted.items()
    )


def held_out(task: Task, config: RunConfig, head: str = "main") -> Batch:
    """The sequences that every evaluation of a run uses, from the test side of the task's split."""
    return task.sample(config.eval_size, generator(config.seed, "evaluation", *_purpose(head)), split="test", head=head)


def n_distinct(task: Task, config: RunConfig) -> int:
    """How many different questions an evaluation of the main task has.

    One that was drawn twice counts twice in its accuracy, which is a mean over the task's own distribution and has no
    interval.
    """
    return len(distinct(task, held_out(task, config).tokens).unique())


def _purpose(head: str) -> tuple[str, ...]:
    return () if head == "main" else (head,)
