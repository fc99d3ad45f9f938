"""Where a probe looks: rules that say, for any input of a task, at which positions.

every labelled position     labelled         all in one probe
every position              each             a probe for each
a fixed position            3, or (3, 4)     a probe for each
what is scored              scored           all in one probe
at the delimiter            delimiter
at each output token        outputs          all in one probe; `each output`: a probe for each
at the end of each sentence clauses          a probe for each (boxes)
where box B is asked for    box B            (boxes)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from workbench.tasks import Batch, Task

DELIMITERS = ("⊥", "####", "=")  # what ends the question, where a task has it
Rule = str | int | Sequence[int]


@dataclass(frozen=True)
class Rows:
    """The vectors that probes read: for each place, one row of each example, or, pooled, all rows of one place.

    Attributes:
        example: `[n]`, which example each row is of; the same for every place.
        position: `[place, n]`, −1 where the example has no such place.
        names: of the places.
    """

    example: Int[Tensor, " n"]
    position: Int[Tensor, "place n"]
    names: tuple[str, ...]

    def take(self, values: Tensor) -> Tensor:
        """`[batch, pos, …]` to `[place, n, …]`; where there is no position, whatever is at position 0."""
        return values[self.example, self.position.clamp(min=0)]

    def label(self, values: Int[Tensor, "batch pos *class"]) -> Int[Tensor, "place n *class"]:
        """A label at these rows; −1 where there is no position."""
        taken = self.take(values)
        there = self.position >= 0
        return torch.where(there if values.ndim == 2 else there[..., None], taken, -1)


def _pooled(name: str, where: Bool[Tensor, "batch pos"]) -> Rows:
    example, position = where.nonzero(as_tuple=True)
    return Rows(example, position[None], (name,))


def _aligned(names: Sequence[str], position: Int[Tensor, "place batch"]) -> Rows:
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
    """Where each input's question ends.

    Raises:
        ValueError: if the task has no delimiter.
    """
    mark = next((word for word in DELIMITERS if word in task.vocabulary.ids), None)
    if mark is None:
        raise ValueError(f"the inputs of {task.name} have no delimiter; look at `labelled` or at a fixed position")
    return (tokens == task.vocabulary.id(mark)).long().argmax(1)


def _behind_delimiter(task: Task, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    position = torch.arange(tokens.shape[1])
    return (position > delimiter(task, tokens)[:, None]) & (position < task.lengths(tokens)[:, None])


def _clause(task: Task, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
    labels = task.truth(tokens).labels
    if "clause" not in labels:
        raise ValueError(f"the inputs of {task.name} have no clauses; those of boxes do")
    return labels["clause"]


def clause_ends(clause: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch pos"]:
    """The last position of each clause of texts about boxes, from the label `clause`."""
    following = torch.nn.functional.pad(clause[:, 1:], (0, 1), value=-1)
    return (clause >= 0) & (clause != following)


def asked_box(
    task: Task, tokens: Int[Tensor, "batch pos"], clause: Int[Tensor, "batch pos"], box: str
) -> Int[Tensor, " batch"]:
    """Where a box is named behind the text of a task about boxes: there its contents are asked for. −1: nowhere.

    Raises:
        ValueError: if the task has no such box.
    """
    words = task.vocabulary.ids
    if "Box" not in words or box not in words:
        raise ValueError(f"the inputs of {task.name} name no box {box!r}")
    named = (tokens == words[box]) & (tokens.roll(1, dims=1) == words["Box"]) & (clause < 0)
    named[:, 0] = False
    return torch.where(named.any(1), named.long().argmax(1), -1)


Find = Callable[[Task, Batch, Bool[Tensor, "batch pos"]], Rows]
RULES: dict[str, Find] = {
    "labelled": lambda task, batch, labelled: _pooled("labelled", labelled),
    "each": lambda task, batch, labelled: _fixed(labelled.any(0).nonzero()[:, 0].tolist(), labelled),
    "scored": lambda task, batch, labelled: _pooled("scored", labelled & batch.loss_mask),
    "delimiter": lambda task, batch, labelled: _aligned(["delimiter"], delimiter(task, batch.tokens)[None]),
    "outputs": lambda task, batch, labelled: _pooled("outputs", labelled & _behind_delimiter(task, batch.tokens)),
    "each output": lambda task, batch, labelled: _numbered(_behind_delimiter(task, batch.tokens), "output"),
    "clauses": lambda task, batch, labelled: _numbered(clause_ends(_clause(task, batch.tokens)), "clause"),
}


def rules_for(task: Task) -> list[str]:
    """The rules that a task's inputs allow, but for single positions."""
    words = task.vocabulary.ids
    found = [name for name in RULES if name in ("labelled", "each", "scored")]
    if any(word in words for word in DELIMITERS):
        found += ["delimiter", "outputs", "each output"]
    if "Box" in words:
        found += ["clauses", *(f"box {letter}" for letter in ascii_uppercase if letter in words)]
    return found


def rows(task: Task, batch: Batch, rule: Rule, labelled: Bool[Tensor, "batch pos"]) -> Rows:
    """The rows that a rule picks out of a batch.

    Args:
        task, batch: the inputs.
        rule: one of `RULES`, `box B`, a position, or several.
        labelled: where what is to be decoded means something.

    Raises:
        ValueError: if there is no such rule, the task has no such place, or nothing is labelled there.
    """
    found = _find(task, batch, rule, labelled)
    there = (found.position >= 0) & found.take(labelled)
    if not bool(there.any()):
        raise ValueError(f"nothing to decode is labelled at the positions {rule!r}")
    kept = there.any(1)
    position = torch.where(there, found.position, -1)[kept]
    return Rows(found.example, position, tuple(name for name, k in zip(found.names, kept.tolist(), strict=True) if k))


def _find(task: Task, batch: Batch, rule: Rule, labelled: Bool[Tensor, "batch pos"]) -> Rows:
    if isinstance(rule, str):
        if rule in RULES:
            return RULES[rule](task, batch, labelled)
        if rule.startswith("box "):
            box = rule.removeprefix("box ")
            return _aligned([rule], asked_box(task, batch.tokens, _clause(task, batch.tokens), box)[None])
        if not all(part.strip().isdecimal() for part in rule.split(",")):
            there_is = ", ".join([*RULES, "box B", "a position", "several: 3,4"])
            raise ValueError(f"there is no rule {rule!r} for positions; there is: {there_is}")
        rule = [int(part) for part in rule.split(",")]
    return _fixed([rule] if isinstance(rule, int) else list(rule), labelled)


def _fixed(positions: list[int], labelled: Bool[Tensor, "batch pos"]) -> Rows:
    batch, n_pos = labelled.shape
    for position in positions:
        if not 0 <= position < n_pos:
            raise ValueError(f"there is no position {position}; the inputs have {n_pos} tokens")
        if not bool(labelled[:, position].any()):
            raise ValueError(f"what is to be decoded means nothing at position {position}")
    return _aligned([str(p) for p in positions], torch.tensor(positions, dtype=torch.long)[:, None].expand(-1, batch))
