"""Rules for positions: where a probe reads, for any input of a task.

rule          where                                       probes
labelled      every labelled position                     one
each          every labelled position                     one for each position
3 or (3, 4)   fixed positions (as text: `3,4`)            one for each position
scored        the labelled positions that are scored      one
delimiter     at the delimiter                            one
outputs       every output token                          one
each output   every output token                          one for each
clauses       the end of each sentence about boxes        one for each sentence
box B         where box B is asked for                    one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.tasks import Batch, Task
from workbench.tasks.boxes import Boxes
from workbench.tasks.labels import asked_box, clause_ends
from workbench.util.seeds import generator

DELIMITERS = ("⊥", "####", "=")  # words that end the question, where a task has one of them
BOX = "box "  # + a letter: the rule for where that box is asked for
Rule = str | int | Sequence[int]


@dataclass(frozen=True)
class Rows:
    """The positions that probes read: several places with a row for each example, or all rows pooled in one place.

    Attributes:
        example: which example each row is of; the same for every place.
        position: the row's position, −1 where the example has no such place.
        names: names of the places.
    """

    example: Int[Tensor, " n"]
    position: Int[Tensor, "place n"]
    names: tuple[str, ...]

    def take(self, values: Tensor) -> Tensor:
        """The values `[batch, pos, …]` at these rows, as `[place, n, …]`; a row without a position reads position 0."""
        return values[self.example, self.position.clamp(min=0)]

    def label(self, values: Int[Tensor, "batch pos *class"]) -> Int[Tensor, "place n *class"]:
        """A label's values at these rows; −1 where there is no position."""
        taken = self.take(values)
        there = self.position >= 0
        return torch.where(there if values.ndim == 2 else there[..., None], taken, -1)


def _pooled(name: str, where: Bool[Tensor, "batch pos"]) -> Rows:
    """One place of all these positions."""
    example, position = where.nonzero(as_tuple=True)
    return Rows(example, position[None], (name,))


def _aligned(names: Sequence[str], position: Int[Tensor, "place batch"]) -> Rows:
    """Places with one position in each example."""
    return Rows(torch.arange(position.shape[1]), position, tuple(names))


def _numbered(where: Bool[Tensor, "batch pos"], name: str) -> Rows:
    """A place for the first true position of each example, one for the second, …"""
    most = int(where.sum(1).max())
    order = torch.where(where, where.long().cumsum(1), 0)
    position = torch.full((max(most, 1), len(where)), -1)
    example, at = where.nonzero(as_tuple=True)
    position[order[example, at] - 1, example] = at
    return _aligned([f"{name} {i}" for i in range(len(position))], position)


def delimiter(task: Task, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
    """The position of each input's delimiter, which ends its question.

    Raises:
        ValueError: if the task has no delimiter.
    """
    mark = next((word for word in DELIMITERS if word in task.vocabulary.ids), None)
    if mark is None:
        raise ValueError(f"the inputs of {task.name} have no delimiter; read at `labelled` or at a fixed position")
    return (tokens == task.vocabulary.id(mark)).long().argmax(1)


def _outputs(task: Task, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    """The tokens after the delimiter."""
    position = torch.arange(tokens.shape[1])
    return (position > delimiter(task, tokens)[:, None]) & (position < task.lengths(tokens)[:, None])


def _clause(task: Task, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    """The number of the clause that each token is in. Raises ValueError if the task is not about boxes."""
    labels = task.truth(tokens).labels
    if "clause" not in labels:
        raise ValueError(f"the inputs of {task.name} have no clauses; those of boxes do")
    return labels["clause"]


Find = Callable[[Task, Batch, Bool[Tensor, "batch pos"]], Rows]


@dataclass(frozen=True)
class PositionRule:
    """A named rule for positions.

    Attributes:
        find: picks the rows of a batch, given where the label has a value.
        applies: whether the inputs of a task have such positions.
    """

    find: Find
    applies: Callable[[Task], bool] = lambda task: True


def _has_delimiter(task: Task) -> bool:
    return any(word in task.vocabulary.ids for word in DELIMITERS)


def _has_outputs(task: Task) -> bool:
    """Whether something is written after the delimiter, and not only predicted at it."""
    return _has_delimiter(task) and bool(_outputs(task, task.sample(1, generator(0, "outputs")).tokens).any())


def _boxes(task: Task) -> list[str]:
    """The letters of the boxes that a task asks about; none if it asks about none, though it may name them."""
    return [letter for letter in ascii_uppercase if letter in task.vocabulary.ids] if isinstance(task, Boxes) else []


RULES: dict[str, PositionRule] = {
    "labelled": PositionRule(lambda task, batch, labelled: _pooled("labelled", labelled)),
    "each": PositionRule(lambda task, batch, labelled: _fixed(labelled.any(0).nonzero()[:, 0].tolist(), labelled)),
    "scored": PositionRule(lambda task, batch, labelled: _pooled("scored", labelled & batch.loss_mask)),
    "delimiter": PositionRule(
        lambda task, batch, labelled: _aligned(["delimiter"], delimiter(task, batch.tokens)[None]), _has_delimiter
    ),
    "outputs": PositionRule(
        lambda task, batch, labelled: _pooled("outputs", labelled & _outputs(task, batch.tokens)), _has_outputs
    ),
    "each output": PositionRule(
        lambda task, batch, labelled: _numbered(_outputs(task, batch.tokens), "output"), _has_outputs
    ),
    "clauses": PositionRule(
        lambda task, batch, labelled: _numbered(clause_ends(_clause(task, batch.tokens)), "clause"),
        lambda task: bool(_boxes(task)),
    ),
}


def rules_for(task: Task) -> list[str]:
    """The rules that apply to a task's inputs, without those of fixed positions."""
    return [name for name, rule in RULES.items() if rule.applies(task)] + [f"{BOX}{box}" for box in _boxes(task)]


def rows(task: Task, batch: Batch, rule: Rule, labelled: Bool[Tensor, "batch pos"]) -> Rows:
    """The rows of a batch that a rule picks, without places where nothing is labelled.

    Args:
        task, batch: the inputs.
        rule: one of `RULES`, `box B`, a position, or several.
        labelled: where the label to be decoded has a value.

    Raises:
        ValueError: if there is no such rule, the task has no such place, or nothing is labelled there.
    """
    if not isinstance(rule, str):
        picked = _fixed([rule] if isinstance(rule, int) else list(rule), labelled)
    elif rule in RULES:
        picked = RULES[rule].find(task, batch, labelled)
    elif rule.startswith(BOX):
        at = asked_box(task, batch.tokens, _clause(task, batch.tokens), rule.removeprefix(BOX))
        picked = _aligned([rule], at[None])
    else:
        numbers = rule.split(",")
        if not all(number.strip().isdecimal() for number in numbers):
            rules = ", ".join([*RULES, f"{BOX}B", "a position", "several: 3,4"])
            raise ValueError(f"there is no rule {rule!r} for positions; there is: {rules}")
        picked = _fixed([int(number) for number in numbers], labelled)
    there = (picked.position >= 0) & picked.take(labelled)
    if not bool(there.any()):
        raise ValueError(f"nothing to decode is labelled at the positions {rule!r}")
    kept = there.any(1)
    position = torch.where(there, picked.position, -1)[kept]
    return Rows(picked.example, position, tuple(name for name, k in zip(picked.names, kept.tolist(), strict=True) if k))


def _fixed(positions: list[int], labelled: Bool[Tensor, "batch pos"]) -> Rows:
    """A place for each of some positions."""
    batch, n_pos = labelled.shape
    for position in positions:
        if not 0 <= position < n_pos:
            raise ValueError(f"there is no position {position}; the inputs have {n_pos} tokens")
        if not bool(labelled[:, position].any()):
            raise ValueError(f"what is to be decoded means nothing at position {position}")
    return _aligned([str(p) for p in positions], torch.tensor(positions, dtype=torch.long)[:, None].expand(-1, batch))
