"""Answers as whole sequences: where they begin in a batch, and the edit distance between two."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.tasks.batch import Batch


@dataclass(frozen=True)
class Answers:
    """The questions of a batch, to be continued by greedy decoding, and the right answers.

    Attributes:
        prompts: each sequence up to where its answer begins.
        tokens: `[batch, answer]`, the answers, −1 after their ends.
        lengths: `[batch]`, their lengths.
    """

    prompts: list[Int[Tensor, " pos"]]
    tokens: Int[Tensor, "batch answer"]
    lengths: Int[Tensor, " batch"]

    @staticmethod
    def of(batch: Batch) -> Answers:
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
        start, lengths = scored.long().argmax(1), scored.sum(1)
        place = torch.arange(int(lengths.max()))
        at = (start[:, None] + place).clamp(max=scored.shape[1] - 1)
        tokens = torch.where(place < lengths[:, None], targets.gather(1, at), -1)
        return Answers([row[: int(end) + 1] for row, end in zip(batch.tokens, start, strict=True)], tokens, lengths)


def edit_distance(
    first: Int[Tensor, "batch a"], second: Int[Tensor, "batch b"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, " batch"]:
    """Levenshtein distance between the first `lengths` tokens of each pair: insertions, deletions, replacements.

    The table of the dynamic programme is filled row by row for the whole batch at once; within a row, consecutive
    insertions are a running minimum.
    """
    width = torch.arange(second.shape[1] + 1)
    row = width.expand(len(second), -1)
    rows = [row]
    for i in range(first.shape[1]):
        replaced = row[:, :-1] + (first[:, i, None] != second)
        row = torch.cat([row[:, :1] + 1, torch.minimum(replaced, row[:, 1:] + 1)], dim=1)
        row = (row - width).cummin(1).values + width
        rows.append(row)
    table = torch.stack(rows, dim=1)
    return table[torch.arange(len(table)), lengths, lengths].float()
