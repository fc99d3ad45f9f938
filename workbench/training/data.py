"""The batches of a run. Those of step t depend on its config and t alone, so that a resumed run draws the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

import torch

from workbench.runs import RunConfig
from workbench.tasks import Batch, Task
from workbench.tasks.stream import in_order
from workbench.training.curriculum import DRAWN_AHEAD, curriculum_batches
from workbench.training.hint_mixing import Batches, purpose, sizes, sizes_of_steps
from workbench.training.training_set import batches_of_set
from workbench.util.seeds import generator


def training_batches(
    task: Task, config: RunConfig, first: int = 0, passed: Callable[[], int] = lambda: 0
) -> Iterator[Batches]:
    """The batches from step `first` to the run's end, drawn by this process or by the config's worker processes.

    They are fresh, or those of the config's finite training set. With `bucket_steps`, the sequences of so many steps
    are dealt to these steps anew, by length. With `shift_positions`, each begins at a position of its own.

    Args:
        task: the task.
        config: the run's.
        first: the step to begin with.
        passed: how many steps of its curriculum the run has passed by now, which changes at evaluations alone.
    """
    begin = first - first % config.bucket_steps
    if config.curriculum:
        batches = curriculum_batches(task, config, begin, passed, _fresh)
    else:
        if config.train_size is None:
            batches = in_order(partial(_fresh, task, config.seed), sizes_of_steps(config, begin), config.workers)
        else:
            batches = batches_of_set(task, config, begin, config.workers)
        batches = batches if config.workers else _drawn_ahead(batches)
    if config.bucket_steps > 1:
        batches = islice(_by_length(task, config, batches, begin), first - begin, None)
    return _shifted(task, config, batches, first) if config.shift_positions else batches


def _drawn_ahead(batches: Iterator[Batches]) -> Iterator[Batches]:
    """The same batches, drawn several at a time: one by one, between optimizer steps, they take twice as long."""
    while several := list(islice(batches, DRAWN_AHEAD)):
        yield from several


def _by_length(task: Task, config: RunConfig, batches: Iterator[Batches], first: int) -> Iterator[Batches]:
    """The same sequences, those of `bucket_steps` steps dealt anew: sequences of like length together.

    Batches come in random order, and sequences of one length are dealt at random. Each step has as many sequences of
    each head as before.
    """
    while several := list(islice(batches, config.bucket_steps)):
        draws = generator(config.seed, "buckets", first // config.bucket_steps)
        dealt: dict[str, list[Batch]] = {}  # head -> its batches, in the order in which steps take them
        for head in dict.fromkeys(batch.head for step in several for batch in step):
            whole = Batch.cat([batch for step in several for batch in step if batch.head == head], task.pad)
            size = sizes(config)[head]
            order = torch.randperm(len(whole), generator=draws)
            order = order[task.lengths(whole.tokens)[order].argsort(stable=True)]
            parts = [task.trimmed(whole[rows]) for rows in order.split(size)]
            turn = torch.randperm(len(parts), generator=draws).tolist()
            dealt[head] = [replace(parts[i], head=head) for i in turn]
        for step in several:
            yield tuple(dealt[batch.head].pop() for batch in step)
        first += config.bucket_steps


def _shifted(task: Task, config: RunConfig, batches: Iterator[Batches], first: int) -> Iterator[Batches]:
    """The same sequences, each beginning at a position drawn from those that leave room for all of it."""
    for step, of_step in enumerate(batches, first):
        shifted = []
        for batch in of_step:
            room = config.model.n_ctx - task.lengths(batch.tokens) + 1
            draws = generator(config.seed, "positions", step, batch.head)
            shares = torch.rand(len(batch), generator=draws, dtype=torch.float64)
            shifted.append(replace(batch, start=(shares * room).long()))
        yield tuple(shifted)


def _fresh(task: Task, seed: int, step_and_sizes: tuple[int, dict[str, int]]) -> Batches:
    step, sizes_of_heads = step_and_sizes
    return tuple(
        task.sample(n, generator(seed, "train", step, *purpose(head)), split="train", head=head)
        for head, n in sizes_of_heads.items()
    )


def held_out(task: Task, config: RunConfig, head: str = "main") -> Batch:
    """The sequences that every evaluation of a run uses, from the test side of the task's split."""
    return task.sample(config.eval_size, generator(config.seed, "evaluation", *purpose(head)), split="test", head=head)
