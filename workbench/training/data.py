"""The batches of a run. Those of step t depend only on the run's seed and t, so that a resumed run draws the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import islice

from workbench.runs import RunConfig
from workbench.tasks import Batch, Task, distinct
from workbench.tasks.stream import in_order
from workbench.training.hint_mixing import sizes, turns
from workbench.util.seeds import generator

DRAWN_AHEAD = 16  # steps

Batches = tuple[Batch, ...]
"""What one step trains on: a batch for each output head that takes part."""


def training_batches(task: Task, config: RunConfig, first: int = 0) -> Iterator[Batches]:
    """The batches from step `first` to the run's end, drawn by this process or by the config's worker processes."""
    workers = min(config.workers, os.cpu_count() or 1)  # a config may ask for any number
    draw = partial(_training_batches, task, config.seed)
    drawn = in_order(draw, _wanted(config, first), workers)
    return drawn if workers else _drawn_ahead(drawn)


def _drawn_ahead(batches: Iterator[Batches]) -> Iterator[Batches]:
    """The same batches, drawn several at a time: one by one, between optimizer steps, they take twice as long."""
    while several := list(islice(batches, DRAWN_AHEAD)):
        yield from several


def _wanted(config: RunConfig, first: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Each step, with the number of sequences of each head that it trains."""
    sizes_of_heads, turn = sizes(config), turns(config.mixture, first)
    for step in range(first, config.steps):
        head = next(turn) if config.mixing == "alternate" else None
        yield step, sizes_of_heads if head is None else {head: sizes_of_heads[head]}


def _training_batches(task: Task, seed: int, step_and_sizes: tuple[int, dict[str, int]]) -> Batches:
    step, sizes_of_heads = step_and_sizes
    return tuple(
        task.sample(n, generator(seed, "train", step, *_purpose(head)), split="train", head=head)
        for head, n in sizes_of_heads.items()
    )


def held_out(task: Task, config: RunConfig, head: str = "main") -> Batch:
    """The sequences that every evaluation of a run uses, from the test side of the task's split."""
    return task.sample(config.eval_size, generator(config.seed, "evaluation", *_purpose(head)), split="test", head=head)


def n_distinct(task: Task, config: RunConfig) -> int:
    """The number of distinct questions among the held-out sequences of the main task.

    The accuracy logged in training counts a question that was drawn twice twice: it is the mean over the task's
    distribution, and is logged without an interval.
    """
    return len(distinct(task, held_out(task, config).tokens).unique())


def _purpose(head: str) -> tuple[str, ...]:
    """What a head adds to the purpose of its random stream: nothing for main, whose draws no hint may change."""
    return () if head == "main" else (head,)
