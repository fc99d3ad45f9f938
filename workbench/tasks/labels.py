"""Labels that a probe decodes or an auxiliary target asks for: a task's truth, and some made of its other arrays.

A label has a class at each position, `[batch, pos]`, or a set of classes, `[batch, pos, class]` of 0 and 1; −1 where it
has no meaning. Every task has `token` (the token itself) and `position`. Beside the labels of the truth there are:

    pointer_chain      ancestor_1, ancestor_2, …       the position so many hops up
    multiplication     partial_product_0, …            the digit of that row in the column that is predicted
                       running_sum_0, …                the same of the sum of the rows so far
    boxes              contents_A, …                   the set of objects in box A: at the end of a clause after it,
                                                       and where box A is asked for, after the last
    sequences          next_token, in_quotes, …        see `text_labels`
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from string import ascii_uppercase

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from workbench.tasks.base import Task
from workbench.tasks.batch import Truth
from workbench.tasks.text_labels import of_text
from workbench.util.seeds import generator

TOKEN, POSITION = "token", "position"  # labels that every task has
CONTENTS = "contents_"  # + the letter of a box
Labels = dict[str, Int[Tensor, "batch pos *class"]]


def labels(task: Task, tokens: Int[Tensor, "batch pos"]) -> Labels:
    """Every label of these inputs, by name."""
    truth = task.truth(tokens)
    inside = torch.arange(tokens.shape[1]) < task.lengths(tokens)[:, None]
    position = torch.arange(tokens.shape[1]).expand_as(tokens)
    derived: Labels = DERIVED[task.name](task, tokens, truth) if task.name in DERIVED else {}
    of_every_task = {TOKEN: torch.where(inside, tokens, -1), POSITION: torch.where(inside, position, -1)}
    return {**truth.labels, **derived, **of_every_task}


@lru_cache(maxsize=32)
def label_names(task: Task) -> tuple[str, ...]:
    """The names of a task's labels."""
    return tuple(labels(task, task.sample(2, generator(0, "what there is to decode")).tokens))


def is_labelled(values: Int[Tensor, "*lead class"] | Int[Tensor, "*lead"], lead: int = 2) -> Bool[Tensor, "*lead"]:
    """Where a label has a value: `[batch, pos]`; of rows, whose `lead` is 1, `[n]`."""
    return (values if values.ndim == lead else values.amax(-1)) >= 0


def clause_ends(clause: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    """The last position of each clause of texts about boxes, from the label `clause`."""
    following = torch.nn.functional.pad(clause[:, 1:], (0, 1), value=-1)
    return (clause >= 0) & (clause != following)


def asked_box(
    task: Task, tokens: Int[Tensor, "batch pos"], clause: Int[Tensor, "batch pos"], box: str
) -> Int[Tensor, " batch"]:
    """The position at which a box is named after the text about boxes, where its contents are asked for; −1 if nowhere.

    Raises:
        ValueError: if the task has no such box.
    """
    words = task.vocabulary.ids
    if "Box" not in words or box not in words:
        raise ValueError(f"the inputs of {task.name} name no box {box!r}")
    named = (tokens == words[box]) & (tokens.roll(1, dims=1) == words["Box"]) & (clause < 0)
    named[:, 0] = False
    return torch.where(named.any(1), named.long().argmax(1), -1)


def _rows(task: Task, tokens: Tensor, truth: Truth) -> Labels:
    """The rows of a long multiplication, each digit at the position that predicts its column."""
    column = truth.labels["digit"]
    by_row: Labels = {}
    for name in ("partial_product", "running_sum"):
        table = truth.arrays[f"{name}s"]
        wide = pad(table, (0, max(0, int(column.max()) + 1 - table.shape[-1])))
        for row in range(table.shape[1]):
            digits = wide[:, row].gather(1, column.clamp(min=0))
            by_row[f"{name}_{row}"] = torch.where(column >= 0, digits, -1)
    return by_row


def _contents(task: Task, tokens: Tensor, truth: Truth) -> Labels:
    """The objects in each box, at the end of each clause, and where the box is asked for."""
    held, clause = truth.arrays["contents"].long(), truth.labels["clause"]
    ends, last = clause_ends(clause), clause.amax(1)
    every_example = torch.arange(len(tokens))
    by_box: Labels = {}
    for box in range(held.shape[2]):
        letter = ascii_uppercase[box]
        values = torch.full((*tokens.shape, held.shape[3]), -1)
        example, at = ends.nonzero(as_tuple=True)
        values[example, at] = held[example, clause[example, at], box]
        question = asked_box(task, tokens, clause, letter)
        named = question >= 0
        values[every_example[named], question[named]] = held[every_example, last, box][named]
        by_box[f"{CONTENTS}{letter}"] = values
    return by_box


DERIVED: dict[str, Callable[[Task, Tensor, Truth], Labels]] = {
    "pointer_chain": lambda task, tokens, truth: {
        f"ancestor_{hop}": up for hop, up in enumerate(truth.arrays["ancestors"].unbind(-1), 1)
    },
    "multiplication": _rows,
    "boxes": _contents,
    "sequences": lambda task, tokens, truth: of_text(task, tokens),
}
