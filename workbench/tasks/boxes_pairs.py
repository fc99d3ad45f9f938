"""Minimal changes of a text of the task boxes: another box in an operation, or another item throughout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from workbench.tasks.boxes_world import WORDS
from workbench.tasks.pairs import choose, other_value, with_other_value

if TYPE_CHECKING:
    from workbench.tasks.boxes import Boxes

PAIR_KINDS = {
    "operation": "one box that an operation names is replaced by another, where that can be done",
    "item": "an item is replaced, wherever the text names it, by one that it does not name",
}


def changed_story(
    task: Boxes, tokens: Int[Tensor, "batch pos"], kind: str, generator: torch.Generator
) -> Int[Tensor, "batch pos"]:
    """Texts with one change of this kind; see `Task.changed_question`. The box that is asked about stays.

    Items stay in alphabetical order within a phrase, as the task writes them: a text that would not is not changed.
    """
    first_box, first_item = len(WORDS), len(WORDS) + task.boxes
    end = first_item + task.n_objects
    text_ends = task.question_length(tokens) - (2 if task.ask == "one" else 0)
    in_text = torch.arange(tokens.shape[1]) < text_ends[:, None]
    if kind == "operation":
        behind_first_sentence = (tokens == task.vocabulary.id(".")).cumsum(-1) > 0
        named = in_text & behind_first_sentence & (tokens >= first_box) & (tokens < first_item)
        return with_other_value(tokens, named, first_box, first_item, generator)
    items = in_text & (tokens >= first_item) & (tokens < end)
    old = tokens.gather(1, choose(items, generator))
    new = other_value(old, first_item, end, generator)
    changed = torch.where(items & (tokens == old), new, tokens)
    next_item = changed.roll(-3, dims=1)  # in “x and the y”
    follows = items & (tokens.roll(-1, dims=1) == task.vocabulary.id("and"))
    allowed = ~((items & (tokens == new)).any(-1) | (follows & (changed > next_item)).any(-1))
    return torch.where(allowed[:, None] & items.any(-1, keepdim=True), changed, tokens)
