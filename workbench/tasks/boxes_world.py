"""Drawing texts of the task boxes: the contents of all boxes of a batch, written as sentences while they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Int
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
ABSENT = -1


class World:
    """The boxes and items of a whole batch. Sentences are rows of tokens, with −1 where a sequence has no word."""

    def __init__(self, task: Boxes, n: int, generator: torch.Generator) -> None:
        self.task, self.n, self.generator = task, n, generator
        self.ids = {word: i for i, word in enumerate(task.vocabulary.words)}
        self.first_box, self.first_item = len(WORDS), len(WORDS) + task.boxes
        if task._or(task.start, "poisson", "one") == "poisson":
            rates = torch.full((n, task.boxes), 2.0)
            counts = torch.poisson(rates, generator=generator).long()
            counts = counts.clamp(max=task.capacity)
        else:
            counts = torch.ones(n, task.boxes, dtype=torch.long)
        if task._filled != "any":
            chosen = self._random(n, task.boxes).argsort(-1) < task.boxes // 2
            counts = torch.where(chosen, counts.clamp(min=1), 0)
        # The box of each item: the first items of a random order fill the boxes one after the other; −1 is no box.
        order = self._random(n, task.n_objects).argsort(-1)
        rank = torch.arange(task.n_objects).repeat(n, 1)
        place = torch.searchsorted(counts.cumsum(-1), rank, right=True)
        self.where = torch.empty_like(order).scatter_(1, order, torch.where(place < task.boxes, place, -1))

    def _random(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self.generator)

    def _integers(self, high: int, n: int) -> Tensor:
        return torch.randint(0, high, (n,), generator=self.generator)

    def describe(self, shuffled: bool) -> Int[Tensor, "batch column"]:
        """The first sentence: what every box holds at the start."""
        boxes = torch.arange(self.task.boxes).expand(self.n, -1)
        if shuffled:
            boxes = self._random(self.n, self.task.boxes).argsort(-1)
        clauses = []
        for box in boxes.unbind(1):
            items = self.where == box[:, None]
            count = items.sum(-1)
            holds = self._row(items, [("is", count == 1), ("are", count > 1), "in", "Box"], box)
            nothing = self._row(None, ["there", "is", "nothing", "in", "Box"], box)
            if self.task.style == "advanced":
                nothing = torch.full_like(nothing, ABSENT)
            clauses.append(_either(count > 0, holds, nothing))
        return self._capital(self._joined(clauses))

    def operate(self, active: Bool[Tensor, " batch"]) -> Int[Tensor, "batch column"]:
        """One operation in each active sequence, drawn again until it can be done, and its sentence."""
        kind, source, target = (torch.zeros(self.n, dtype=torch.long) for _ in range(3))
        items = torch.zeros(self.n, self.task.n_objects, dtype=torch.bool)
        pending = active.nonzero()[:, 0]
        while len(pending):
            drawn = self._attempt(self.where[pending])
            ok = drawn[0]
            done = pending[ok]
            kind[done], source[done], target[done], items[done] = (part[ok] for part in drawn[1:])
            pending = pending[~ok]
        whole = ((self.where == source[:, None]) & ~items).sum(-1) == 0
        destination = torch.where(kind == 1, -1, target)
        self.where = torch.where(items & active[:, None], destination[:, None], self.where)
        put, remove, move = (active & (kind == value) for value in range(3))
        contents = move & whole
        named = self._row(
            items,
            [("into", put), ("from", remove | move), "Box"],
            torch.where(put, target, source),
            before=[("Put", put), ("Remove", remove), ("Move", move)],
            after=[("to", move), ("Box", move)],
            second=torch.where(move, target, ABSENT),
            end=".",
        )
        all_of_it = self._row(
            None, ["Move", "the", "contents", "of", "Box"], source, after=["to", "Box"], second=target, end="."
        )
        row = _either(contents, all_of_it, named)
        return torch.where(active[:, None], row, ABSENT)

    def _attempt(self, where: Int[Tensor, "some object"]) -> tuple[Tensor, ...]:
        """Draw an operation: whether it can be done, its kind (0 put, 1 remove, 2 move), source, target and items."""
        m, task = len(where), self.task
        kind, source, target = self._integers(3, m), self._integers(task.boxes, m), self._integers(task.boxes, m)
        held = where == source[:, None]
        some = held & (self._random(*where.shape) < 0.5)
        if task._moves == "contents":
            some = torch.where((kind == 2)[:, None], held, some)
        # New items for put: a non-empty subset (an empty one is drawn again) of the first items in a random order of
        # those that are in no box.
        k = (self._random(m, task.capacity) < 0.5).sum(-1)
        order = torch.where(where < 0, self._random(*where.shape), 2.0)
        best = order.topk(task.capacity, largest=False).values.gather(1, (k[:, None] - 1).clamp(min=0))
        new = (order <= best) & (where < 0)
        items = torch.where((kind == 0)[:, None], new, some)
        count, in_target = items.sum(-1), (where == target[:, None]).sum(-1)
        fits = (kind == 1) | (in_target + count <= task.capacity)
        ok = (count > 0) & fits & ((kind != 2) | (source != target)) & ((kind != 0) | (count == k))
        if task._filled == "half_always":
            empties = count == held.sum(-1)
            keeps = torch.where(kind == 0, in_target > 0, torch.where(kind == 1, ~empties, empties & (in_target == 0)))
            ok &= keeps
        return ok, kind, source, target, items

    def conclude(self, choose: torch.Generator | None) -> Int[Tensor, "batch column"]:
        """The sentence of what every box holds at the end; with a generator, of one box that it chooses."""
        if choose is not None:
            return self._holding(self._integers(self.task.boxes, self.n), ".")
        clauses = [self._holding(torch.full((self.n,), box), None) for box in range(self.task.boxes)]
        if self.task.style == "advanced":
            empty = [~(self.where == box).any(-1) for box in range(self.task.boxes)]
            clauses = [torch.where(none[:, None], ABSENT, row) for none, row in zip(empty, clauses, strict=True)]
        return self._joined(clauses)

    def _holding(self, box: Int[Tensor, " batch"], end: str | None) -> Int[Tensor, "batch column"]:
        items = self.where == box[:, None]
        none = ~items.any(-1)
        head = torch.cat([self._words(["Box"]), (self.first_box + box)[:, None]], dim=1)
        verb = self._words([("is", none), ("empty", none), ("contains", ~none)])
        tail = self._words([end] if end else [])
        return torch.cat([head, verb, self._phrase(items), tail], dim=1)

    def _row(
        self,
        items: Bool[Tensor, "batch object"] | None,
        middle: list[Any],
        box: Int[Tensor, " batch"],
        *,
        before: list[Any] | None = None,
        after: list[Any] | None = None,
        second: Int[Tensor, " batch"] | None = None,
        end: str | None = None,
    ) -> Int[Tensor, "batch column"]:
        parts = [self._words(before or [])]
        if items is not None:
            parts.append(self._phrase(items))
        parts += [self._words(middle), (self.first_box + box)[:, None], self._words(after or [])]
        if second is not None:
            parts.append(torch.where(second == ABSENT, ABSENT, self.first_box + second)[:, None])
        return torch.cat([*parts, self._words([end] if end else [])], dim=1)

    def _words(self, words: list[Any]) -> Int[Tensor, "batch column"]:
        """A row of words; `(word, where)` is there only in the sequences where the mask is true."""
        columns = []
        for word in words:
            text, where = word if isinstance(word, tuple) else (word, torch.ones(self.n, dtype=torch.bool))
            columns.append(torch.where(where, self.ids[text], ABSENT))
        return torch.stack(columns, dim=1) if columns else torch.zeros(self.n, 0, dtype=torch.long)

    def _phrase(self, items: Bool[Tensor, "batch object"]) -> Int[Tensor, "batch column"]:
        """The items in alphabetical order, as `the x and the y`."""
        ranked = torch.where(items, torch.arange(items.shape[1]), items.shape[1])
        first = ranked.topk(self.task.capacity, largest=False, sorted=True).values
        columns = []
        for i, item in enumerate(first.unbind(1)):
            there = item < items.shape[1]
            words = [("and", there), ("the", there)] if i else [("the", there)]
            columns += [self._words(words), torch.where(there, self.first_item + item, ABSENT)[:, None]]
        return torch.cat(columns, dim=1)

    def _joined(self, clauses: list[Tensor]) -> Int[Tensor, "batch column"]:
        """The clauses of each text that are not empty, with commas between them and a full stop at the end."""
        present = torch.stack([(clause != ABSENT).any(-1) for clause in clauses], dim=1)
        later = present.flip(1).cumsum(1).flip(1) - present.long()
        parts = []
        for i, clause in enumerate(clauses):
            parts += [clause, self._words([(",", present[:, i] & (later[:, i] > 0))])]
        return torch.cat([*parts, self._words(["."])], dim=1)

    def _capital(self, rows: Int[Tensor, "batch column"]) -> Int[Tensor, "batch column"]:
        first = (rows != ABSENT).long().argmax(-1, keepdim=True)
        word = rows.gather(1, first)
        word = torch.where(word == self.ids["the"], self.ids["The"], word)
        word = torch.where(word == self.ids["there"], self.ids["There"], word)
        return rows.scatter(1, first, word)


def _either(where: Bool[Tensor, " batch"], a: Tensor, b: Tensor) -> Int[Tensor, "batch column"]:
    """The rows of `a` where the mask is true, else those of `b`; the narrower of the two is padded with −1."""
    width = max(a.shape[1], b.shape[1])
    a, b = (torch.nn.functional.pad(rows, (0, width - rows.shape[1]), value=ABSENT) for rows in (a, b))
    return torch.where(where[:, None], a, b)
