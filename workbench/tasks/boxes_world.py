"""Drawing texts of the task boxes: the contents of all boxes of a batch, written as sentences while they change.

Chance is drawn for the whole batch at once, and everything else done sequence by sequence in plain lists: a box holds a
few of a hundred items, so that masks of items `[batch, object]` take several times as long.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from string import ascii_uppercase
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from workbench.tasks.boxes import Boxes

_NOUNS = """
apple bag ball band bell bill block boat bone book bottle bowl brain bread brick brush bus cake camera candle card cash
chain chair chemical chest cigarette clock coat coffee computer cookie cream crown cup cut dish disk dress drink drug
engine envelope fan file film fish flower fork game gift glass glove guitar hammer hat ice image jacket kettle key knife
lamp leaf letter lock machine magazine magnet map medicine milk mirror needle note novel paint paper pencil phone pipe
plane plant plate pot radio ring rose sheet shell shirt shoe soap stone string suit tea television ticket train watch
wire
"""
OBJECTS = tuple(sorted(_NOUNS.split()))
WORDS = (
    *("the", "The", "is", "are", "in", "Box", "and", "there", "There", "nothing", "Put", "into", "Remove", "from"),
    *("Move", "to", "contents", "of", "contains", "empty", ",", "."),
)


class World:
    """The boxes of a batch of sequences, and the texts about them so far.

    Attributes:
        boxes: the items of each box of each sequence, in alphabetical order.
        texts: the tokens of each sequence.
    """

    def __init__(self, task: Boxes, n: int, generator: torch.Generator) -> None:
        self.task, self.generator = task, generator
        self.n_boxes, self.capacity = task.boxes, task.capacity
        self.all_moved = task._or(task.moves, "mixed", "contents") == "contents"
        filled = task._or(task.filled, "any", "half_always")
        self.half_always = filled == "half_always"
        self._ids = cache(task.vocabulary.encode)
        self._box = cache(lambda box: task.vocabulary.encode(f"Box {ascii_uppercase[box]}"))
        self._item = cache(lambda item: task.vocabulary.encode(f"and the {OBJECTS[item]}"))
        self.texts: list[list[int]] = [[] for _ in range(n)]
        if task._or(task.start, "poisson", "one") == "poisson":
            drawn = torch.poisson(torch.full((n, task.boxes), 2.0), generator=generator).long()
            counts = drawn.clamp(max=task.capacity)
        else:
            counts = torch.ones(n, task.boxes, dtype=torch.long)
        if filled != "any":
            chosen = self._random(n, task.boxes).argsort(-1) < task.boxes // 2
            counts = torch.where(chosen, counts.clamp(min=1), 0)
        # The first items of a random order fill the boxes one after the other.
        order = self._random(n, task.n_objects).argsort(-1)[:, : task.boxes * task.capacity].tolist()
        self.boxes = [
            [sorted(items[end - size : end]) for size, end in zip(sizes, accumulate(sizes), strict=True)]
            for items, sizes in zip(order, counts.tolist(), strict=True)
        ]

    def _random(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator)

    def _integers(self, high: int, n: int) -> list[int]:
        return torch.randint(0, high, (n,), generator=self.generator).tolist()

    def describe(self, shuffled: bool) -> None:
        """Write the first sentence: what every box holds at the start."""
        order = [range(self.n_boxes)] * len(self.texts)
        if shuffled:
            order = self._random(len(self.texts), self.n_boxes).argsort(-1).tolist()
        for text, boxes, named in zip(self.texts, self.boxes, order, strict=True):
            clauses = []
            for box in named:
                if items := boxes[box]:
                    clauses.append(self._phrase(items) + self._ids("are in" if items[1:] else "is in") + self._box(box))
                elif self.task.style == "default":
                    clauses.append(self._ids("there is nothing in") + self._box(box))
            text += self._joined(clauses)
            for word in ("the", "there"):
                text[:1] = self._ids(word.capitalize()) if text[:1] == self._ids(word) else text[:1]

    def operate(self, counts: list[int]) -> None:
        """Do so many operations in each sequence, each drawn again until it can be done, and write them."""
        for step in range(max(counts)):
            pending = [row for row, count in enumerate(counts) if count > step]
            while pending:
                pending = self._attempt(pending)

    def _attempt(self, pending: list[int]) -> list[int]:
        """Draw an operation in each of these sequences, do and write it where it can be done; returns the others."""
        m, n_objects = len(pending), self.task.n_objects
        kinds, sources, targets = (self._integers(high, m) for high in (3, self.n_boxes, self.n_boxes))
        chances = self._random(m, n_objects).numpy()
        numbers = (self._random(m, self.capacity).numpy() < 0.5).sum(1).tolist()
        orders = self._random(m, n_objects).numpy()
        left = []
        for at, (row, kind, source, target) in enumerate(zip(pending, kinds, sources, targets, strict=True)):
            boxes = self.boxes[row]
            held, there = boxes[source], boxes[target]
            if kind == 0:
                items = self._new_items(boxes, there, numbers[at], orders[at])
            elif kind == 2 and self.all_moved:
                items = held
            else:
                items = [item for item in held if chances[at, item] < 0.5]
            if not items or (kind and not self._can(kind, items, held, there, source == target)):
                left.append(row)
                continue
            self.texts[row] += self._sentence(kind, source, target, items, whole=len(items) == len(held))
            if kind:
                boxes[source] = [item for item in held if item not in items]
            if kind != 1:
                boxes[target] = sorted(there + items)
        return left

    def _can(self, kind: int, items: list[int], held: list[int], there: list[int], same: bool) -> bool:
        """Whether a box of these items can lose some of them, by being removed (1) or moved to a box (2)."""
        if kind == 1:
            return len(items) < len(held) or not self.half_always
        fits = len(there) + len(items) <= self.capacity
        return not same and fits and not (self.half_always and (there or len(items) < len(held)))

    def _new_items(self, boxes: list[list[int]], there: list[int], number: int, order: np.ndarray) -> list[int]:
        """The first so many items, in a random order, of those that are in no box; none if they cannot be put there."""
        if not number or len(there) + number > self.capacity or (self.half_always and not there):
            return []
        order[[item for box in boxes for item in box]] = 2.0  # behind all others
        first = order.argsort()[: number + 1]
        last, next_one = order[first[-2:]]
        # Too few are in no box, or two share a place at the end: it is drawn again.
        return sorted(first[:-1].tolist()) if last < min(next_one, 1) else []

    def _sentence(self, kind: int, source: int, target: int, items: list[int], whole: bool) -> list[int]:
        """An operation in words: 0 put, 1 remove, 2 move, of all that the source holds or not."""
        ids, stop = self._ids, self._ids(".")
        if kind == 0:
            return ids("Put") + self._phrase(items) + ids("into") + self._box(target) + stop
        if kind == 1:
            return ids("Remove") + self._phrase(items) + ids("from") + self._box(source) + stop
        moved = ids("Move the contents of") if whole else ids("Move") + self._phrase(items) + ids("from")
        return moved + self._box(source) + ids("to") + self._box(target) + stop

    def conclude(self, one: bool) -> None:
        """Write the sentence of what every box holds at the end, or of one box that is drawn."""
        n = len(self.texts)
        asked = [[box] for box in self._integers(self.n_boxes, n)] if one else [range(self.n_boxes)] * n
        for text, boxes, named in zip(self.texts, self.boxes, asked, strict=True):
            clauses = []
            for box in named:
                if items := boxes[box]:
                    clauses.append(self._box(box) + self._ids("contains") + self._phrase(items))
                elif one or self.task.style == "default":
                    clauses.append(self._box(box) + self._ids("is empty"))
            text += self._joined(clauses)

    def _phrase(self, items: list[int]) -> list[int]:
        """`the x and the y`."""
        return [word for item in items for word in self._item(item)][1:]

    def _joined(self, clauses: list[list[int]]) -> list[int]:
        """Clauses with commas between them and a full stop at the end."""
        words = [word for clause in clauses for word in (*clause, *self._ids(","))]
        return words[:-1] + self._ids(".")
