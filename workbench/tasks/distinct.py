"""Which of the sequences drawn are the same: a task with few questions draws the same ones again and again.

A sequence drawn twice tells nothing new of a model, so that intervals, and the numbers of sequences that verdicts rest
on, count distinct ones. Two are the same that ask the same question (`Task.asked`), as in the task's split.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.tasks.base import Batch, Task


def distinct(task: Task, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
    """The first example that asks what each asks; its own number where none before it does."""
    asks = torch.arange(tokens.shape[1]) < task.asked(tokens)[:, None]
    same = torch.where(asks, tokens, -1).unique(dim=0, return_inverse=True)[1]
    number = torch.arange(len(tokens))
    return torch.full_like(number, len(tokens)).scatter_reduce_(0, same, number, "amin")[same]


def once_each(task: Task, batch: Batch) -> Batch:
    """The batch with each of its questions once, in the order in which they first came."""
    return batch[distinct(task, batch.tokens) == torch.arange(len(batch))]


def counted(drawn: int, different: int) -> str:
    """How many sequences there are, in words: `256`, or where some are the same `256 drawn, 139 distinct`."""
    return f"{drawn:,}" if drawn == different else f"{drawn:,} drawn, {different:,} distinct"
