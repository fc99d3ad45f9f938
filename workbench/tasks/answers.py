"""Answers as whole sequences: where they begin in a batch, what a model wrote in their place, and how far off it is."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.tasks.base import Task
from workbench.tasks.batch import Batch

NOTHING = -2  # stands in an answer that was read where nothing was written; no token, nor the −1 behind right answers


@dataclass(frozen=True)
class Answers:
    """The questions of a batch, to be continued by greedy decoding, and the right answers.

    A chain of thought is for the model to write: it is neither in the question nor in the answer.

    Attributes:
        task: whose questions they are.
        prompts: each sequence up to where its answer, or the thought before it, begins.
        tokens: `[batch, answer]`, the answers, −1 after their ends.
        lengths: `[batch]`, their lengths.
        n_new: how many tokens a model has to write: the longest answer; where there is a thought, whose length is the
            model's choice, as many as fit the task's context.
    """

    task: Task
    prompts: list[Int[Tensor, " pos"]]
    tokens: Int[Tensor, "batch answer"]
    lengths: Int[Tensor, " batch"]
    n_new: int

    @staticmethod
    def of(task: Task, batch: Batch) -> Answers:
        """The answers that a batch's loss is on.

        Raises:
            ValueError: if they do not continue the sequences: sets of classes, labels, or several separate pieces.
        """
        scored, targets = batch.loss_mask, batch.targets
        follows = scored[:, :-1] & scored[:, 1:]
        edges = scored[:, 1:] & ~scored[:, :-1]
        whole = (edges.sum(1) + scored[:, 0] == 1).all()
        if targets.ndim != 2 or not whole or (targets[:, :-1] != batch.tokens[:, 1:])[follows].any():
            raise ValueError("the answers of this task are not continuations of its questions: nothing to decode")
        answer = task.answer_mask(batch)
        first, lengths = answer.long().argmax(1), answer.sum(1)
        longest = max(lengths.tolist(), default=0)
        place = torch.arange(longest)
        at = (first[:, None] + place).clamp(max=scored.shape[1] - 1)
        tokens = torch.where(place < lengths[:, None], targets.gather(1, at), -1)
        ends = scored.long().argmax(1) + 1
        prompts = [row[: int(end)] for row, end in zip(batch.tokens, ends, strict=True)]
        thought = bool((answer != scored).any())
        n_new = task.n_ctx - int(ends.max()) if thought else longest
        return Answers(task, prompts, tokens, lengths, n_new)

    def __len__(self) -> int:
        return len(self.prompts)

    def read(self, written: Int[Tensor, "batch new"]) -> Int[Tensor, "batch answer"]:
        """The answers in what a model wrote behind the prompts; −2 where it wrote nothing more, or no answer at all.

        Nothing marks an answer's end: as many tokens are read as the longest right answer has, and `exact_match` and
        `edit_distance` look at as many of each as its right answer has.
        """
        start = self.task.answer_start(self.prompts, written)[:, None]
        at = start + torch.arange(self.tokens.shape[1])
        there = written.gather(1, at.clamp(max=written.shape[1] - 1))
        return torch.where(at < written.shape[1], there, NOTHING)

    def exact_match(self, read: Int[Tensor, "batch answer"]) -> Bool[Tensor, " batch"]:
        """Whether each answer that was read is right throughout."""
        return ((read[:, : self.tokens.shape[1]] == self.tokens) | (self.tokens < 0)).all(1)

    def edit_distance(self, read: Int[Tensor, "batch answer"]) -> Float[Tensor, " batch"]:
        """How many tokens of each answer that was read must be inserted, deleted or replaced to make it right.

        It is the Levenshtein distance between as many tokens of each as the right answer has. The table of the dynamic
        programme is filled row by row for the whole batch at once; within a row, consecutive insertions are a running
        minimum.
        """
        width = torch.arange(self.tokens.shape[1] + 1)
        row = width.expand(len(self), -1)
        rows = [row]
        for i in range(read.shape[1]):
            replaced = row[:, :-1] + (read[:, i, None] != self.tokens)
            row = torch.cat([row[:, :1] + 1, torch.minimum(replaced, row[:, 1:] + 1)], dim=1)
            row = (row - width).cummin(1).values + width
            rows.append(row)
        table = torch.stack(rows, dim=1)
        return table[torch.arange(len(self)), self.lengths, self.lengths].float()
