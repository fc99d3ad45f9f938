"""Distinct questions among drawn sequences: a task with few questions draws the same ones again and again.

A question drawn twice says nothing new about a model. Intervals, and the numbers of sequences that verdicts need,
therefore count distinct questions. Two sequences are equal if their questions are, as in the train/test split.
"""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.tasks.base import Task
from workbench.tasks.batch import Batch
from workbench.tasks.split import in_question


def distinct(task: Task, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
    """For each example, the number of the first example with the same question: its own number if it is the first."""
    question = in_question(tokens, task.question_length(tokens))
    same = torch.where(question, tokens, -1).unique(dim=0, return_inverse=True)[1]
    number = torch.arange(len(tokens))
    return torch.full_like(number, len(tokens)).scatter_reduce_(0, same, number, "amin")[same]


def once_each(task: Task, batch: Batch) -> Batch:
    """The batch with each question once, in the order of first appearance."""
    return batch[distinct(task, batch.tokens) == torch.arange(len(batch))]


def counted(drawn: int, different: int) -> str:
    """The number of sequences in words: `256`, or `256 drawn, 139 distinct` if some questions came twice."""
    return f"{drawn:,}" if drawn == different else f"{drawn:,} drawn, {different:,} distinct"
