"""Questions: the side of the train/test split depends on them alone, and sequences count once for each.

So no question is on both sides. A task with few questions draws the same ones again and again, and a question drawn
twice says nothing new about a model: intervals, and the numbers of sequences that verdicts need, count distinct ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

if TYPE_CHECKING:
    from workbench.tasks.base import Task
    from workbench.tasks.batch import Batch

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
TEST_ONE_IN = 10


def fingerprints(tokens: Int[Tensor, "batch pos"], question_length: Int[Tensor, " batch"]) -> np.ndarray:
    """A hash of each example's question, 64 evenly spread bits: the same for equal questions, on every machine."""
    words = tokens.cpu().numpy().astype(np.uint64) + np.uint64(1)
    inside = in_question(tokens.cpu(), question_length.cpu()).numpy()
    # The sum of the question's tokens, each times a fixed random odd number of its position: equal questions have equal
    # sums. Mixing then makes the remainder depend on every bit of the sum.
    odd = _mix(np.arange(1, words.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1)
    return _mix((np.where(inside, words, np.uint64(0)) * odd).sum(-1, dtype=np.uint64))


def in_question(tokens: Int[Tensor, "batch pos"], question_length: Int[Tensor, " batch"]) -> Bool[Tensor, "batch pos"]:
    """Where each example's question stands: true at its first `question_length` positions."""
    return torch.arange(tokens.shape[1], device=tokens.device) < question_length[:, None]


def _mix(x: np.ndarray) -> np.ndarray:
    """The mixing function of the random generator splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


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
