"""Which vector of a sequence is measured, and which answer it leads to: two questions with one answer are positives."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.tasks import Batch, Task
from workbench.tasks.split import fingerprints

At = Literal["first", "last"]


class CannotMeasureError(ValueError):
    """These vectors do not allow what is to be measured: too few have the same answer, or they are not finite."""


@dataclass(frozen=True)
class Asked:
    """One answer of every sequence of a batch: where it is asked for, which it is, and a hash of the question.

    Attributes:
        example, position: `[asked]`, the sequence and the scored position whose vector is measured.
        answers: what is right there: a token, or the set of tokens that are right.
        questions: equal for equal questions alone.
    """

    example: Int[Tensor, " asked"]
    position: Int[Tensor, " asked"]
    answers: list[Hashable]
    questions: list[int]

    def rows(self, activation: Float[Tensor, "batch pos d"]) -> Float[Tensor, "asked d"]:
        """The vectors, in float64.

        Raises:
            CannotMeasureError: if they hold NaN or infinity.
        """
        rows = activation[self.example.to(activation.device), self.position.to(activation.device)].double().cpu()
        if not torch.isfinite(rows).all():
            raise CannotMeasureError("representations must be finite; these hold NaN or infinity")
        return rows

    def moved(self, before: Asked | None) -> Asked:
        """The same vectors, each with answer and question of the sequence before it; the first of all is left out."""
        first = int(before is None)
        answers, questions = (
            ([] if before is None else [getattr(before, name)[-1]]) + getattr(self, name)[:-1]
            for name in ("answers", "questions")
        )
        return Asked(self.example[first:], self.position[first:], answers, questions)


def asked(task: Task, batch: Batch, at: At | None = None) -> Asked:
    """The first or the last answer of each sequence.

    Args:
        task: which says where the answer is (not the chain of thought before it), and what the question is.
        batch: its sequences.
        at: `"first"` or `"last"` scored position of the answer. By default the first where a sequence has one answer
            of several tokens, so that all of it is yet to come; the last where each position has its own.

    Raises:
        ValueError: if `at` is neither.
    """
    at = at or ("first" if task.unit == "sequence" else "last")
    if at not in get_args(At):
        raise ValueError(f"the answer is looked at where it is asked for {' or '.join(get_args(At))}, not {at!r}")
    mask = task.answer_mask(batch).cpu()
    last = mask.shape[1] - 1
    position = mask.long().argmax(-1) if at == "first" else last - mask.flip(-1).long().argmax(-1)
    targets = batch.targets.cpu()[torch.arange(len(mask)), position]
    answers: list[Hashable] = (
        targets.tolist() if targets.ndim == 1 else [tuple(row.nonzero().flatten().tolist()) for row in targets]
    )
    return Asked(
        torch.arange(len(mask)),
        position,
        answers,
        fingerprints(batch.tokens, task.question_length(batch.tokens)).tolist(),
    )
