"""Box moves: which object was moved, asked at the end of every move; the entity tracking of ChaCAL, asked densely."""

from __future__ import annotations

from functools import cached_property
from string import ascii_uppercase
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.boxes_world import OBJECTS
from workbench.tasks.pairs import with_other_value
from workbench.tasks.vocabulary import Vocabulary

WORDS = ("The", "the", "is", "in", "Box", "Move", "contents", "of", "to", ",", ".")
HOLDS, MOVE = 7, 10  # tokens of a clause, its comma or full stop among them
OBJECT, BOX = 1, 5  # where in the clause that says what a box holds
SOURCE, TARGET = 5, 8  # where in a move


class BoxMoves(Task):
    """Objects in boxes, then moves of all that a box holds to an empty one. At each move's full stop: what was moved?

        The ball is in Box A , the apple is in Box C . Move the contents of Box C to Box B .
        Move the contents of Box A to Box C . Move the contents of Box B to Box A .

        target        at the full stops of the three moves: apple, ball, apple

    It is `boxes` of one object a box with a question behind every move (ChaCAL, §5.2, asks at the end alone): an object
    that was moved m times is found along a chain of m clauses, each of which names a box and none of which but the
    first names the object. A stack of standard layers needs ⌈log₂(m + 1)⌉ of them (Theorem 1).

    Labels, at the full stops of moves: `moves` (how often what is moved has been moved, this time included), `moved`
    (the answer, a token). Arrays: `layers` `[batch]` (what Theorem 1 asks of a standard transformer). Gold edges: hop
    h leads from a move's full stop to the end of the clause h steps before in the chain of its object.
    """

    name: ClassVar[str] = "box_moves"
    summary: ClassVar[str] = "objects moved from box to box; what was moved is asked after each move"
    group: ClassVar[str] = "moves"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("moved",)
    pair_kinds: ClassVar[dict[str, str]] = {
        "object": "an object is replaced by one that the text does not name",
        "move": "a box that a move names is replaced by another, where that can be done",
    }

    n_boxes: int = Field(6, ge=2, le=26, description="boxes, of which some are empty")
    n_filled: int = Field(3, ge=1, le=25, description="boxes that hold an object each")
    n_objects: int = Field(8, ge=2, le=len(OBJECTS), description="different objects")
    min_moves: int = Field(5, ge=1, le=256, description="fewest moves of a text")
    max_moves: int = Field(5, ge=1, le=256, description="most moves of a text")

    @model_validator(mode="after")
    def _settings_fit(self) -> BoxMoves:
        if self.min_moves > self.max_moves:
            raise ValueError(f"box_moves needs min_moves <= max_moves, not {self.min_moves} > {self.max_moves}")
        if self.n_filled >= self.n_boxes:
            raise ValueError(f"n_filled={self.n_filled} leaves none of {self.n_boxes} boxes to move anything to")
        if self.n_filled > self.n_objects:
            raise ValueError(f"n_filled={self.n_filled} boxes need as many objects, but n_objects is {self.n_objects}")
        return self

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*WORDS, *ascii_uppercase[: self.n_boxes], *OBJECTS[: self.n_objects], "PAD"))

    @property
    def n_ctx(self) -> int:
        return self._begin + MOVE * self.max_moves

    @property
    def _begin(self) -> int:
        """Tokens of the first sentence."""
        return HOLDS * self.n_filled

    @property
    def _first_object(self) -> int:
        return len(WORDS) + self.n_boxes

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.max_moves + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        return tuple({"moves": count} for count in range(self.min_moves, self.max_moves + 1))

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", moves: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "moves")
        if moves is not None and not 1 <= moves <= self.max_moves:
            raise ValueError(f"moves must be between 1 and {self.max_moves}, not {moves}")
        low, high = (self.min_moves, self.max_moves) if moves is None else (moves, moves)
        counts = torch.randint(low, high + 1, (n, 1), generator=generator)
        boxes = torch.rand(n, self.n_boxes, generator=generator).argsort(-1)[:, : self.n_filled].sort(-1).values
        objects = torch.rand(n, self.n_objects, generator=generator).argsort(-1)[:, : self.n_filled]
        tokens = self._form(high).repeat(n, 1)
        tokens[:, OBJECT : self._begin : HOLDS] = self._first_object + objects
        tokens[:, BOX : self._begin : HOLDS] = len(WORDS) + boxes
        for start in range(self._begin, tokens.shape[1], MOVE):
            which = torch.randint(self.n_filled, (n, 1), generator=generator)
            # [batch, box]: an empty box is the target, each equally likely
            chance = torch.rand(n, self.n_boxes, generator=generator).scatter(1, boxes, -1.0)
            target = chance.argmax(-1, keepdim=True)
            tokens[:, start + SOURCE] = len(WORDS) + boxes.gather(1, which)[:, 0]
            tokens[:, start + TARGET] = len(WORDS) + target[:, 0]
            boxes = boxes.scatter(1, which, target)
        there = torch.arange(tokens.shape[1]) < self._begin + MOVE * counts
        return self._batch(torch.where(there, tokens, self.pad))

    def _form(self, n_moves: int) -> Int[Tensor, " pos"]:
        """The words of a text with so many moves, with the same object and box wherever one is named."""
        holds = ["the", OBJECTS[0], "is", "in", "Box", "A", ","] * self.n_filled
        holds[0], holds[-1] = "The", "."
        move = ["Move", "the", "contents", "of", "Box", "A", "to", "Box", "A", "."]
        return torch.tensor(self.vocabulary.encode([*holds, *move * n_moves]))

    def _followed(self, tokens: Int[Tensor, "batch pos"]) -> tuple[Int[Tensor, "batch move"], ...]:
        """Which object (of those of the first sentence) each move moves, how often it has been moved, this time too;
        −1 where a text has no further move, or a box is empty that should not be or holds something that should.
        """
        boxes = tokens[:, BOX : self._begin : HOLDS]
        counts, slots, numbers = torch.zeros_like(boxes), [], []
        for start in range(self._begin, tokens.shape[1], MOVE):
            source, target = tokens[:, start + SOURCE, None], tokens[:, start + TARGET, None]
            held = boxes == source
            can = held.any(-1) & ~(boxes == target).any(-1)
            counts, boxes = counts + held.long(), torch.where(held, target, boxes)
            slot = held.long().argmax(-1)
            slots.append(torch.where(can, slot, -1))
            numbers.append(torch.where(can, counts.gather(1, slot[:, None])[:, 0], -1))
        return torch.stack(slots, dim=1), torch.stack(numbers, dim=1)

    def _ends(self, tokens: Int[Tensor, "batch pos"]) -> slice:
        """The positions of the full stops of moves."""
        return slice(self._begin + MOVE - 1, tokens.shape[1], MOVE)

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        slot, _ = self._followed(tokens)
        targets, mask = torch.zeros_like(tokens), torch.zeros_like(tokens, dtype=torch.bool)
        objects = tokens[:, OBJECT : self._begin : HOLDS]
        mask[:, self._ends(tokens)] = slot >= 0
        targets[:, self._ends(tokens)] = torch.where(slot >= 0, objects.gather(1, slot.clamp(min=0)), 0)
        return Batch(tokens, targets, mask)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        slot, number = self._followed(tokens)
        batch = self._batch(tokens)
        moves = torch.full_like(tokens, -1)
        moves[:, self._ends(tokens)] = number
        # [batch, slot, step]: where the clause ends that is each step of an object's chain
        ends = torch.zeros(len(tokens), self.n_filled, number.shape[1] + 1, dtype=torch.long)
        ends[:, :, 0] = HOLDS * torch.arange(1, self.n_filled + 1) - 1
        edges = []
        for move in range(number.shape[1]):
            rows = (number[:, move] > 0).nonzero()[:, 0]
            which, step = slot[rows, move], number[rows, move]
            end = self._begin + MOVE * (move + 1) - 1
            ends[rows, which, step] = end
            for hop in range(1, move + 2):
                far = step >= hop
                key = ends[rows[far], which[far], step[far] - hop]
                edges.append(torch.stack([rows[far], *torch.tensor([hop, end]).expand(len(key), 2).T, key], dim=1))
        moved = torch.where(batch.loss_mask, batch.targets, -1)
        layers = (number.max(-1).values + 1).log2().ceil().long()
        return Truth(torch.cat(edges), {"moves": moves, "moved": moved}, {"layers": layers})

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        position = torch.arange(tokens.shape[1])
        if kind == "object":
            where = (position < self._begin) & (position % HOLDS == OBJECT)
            bounds = self._first_object, self._first_object + self.n_objects
        else:
            place = (position - self._begin) % MOVE
            where = (position >= self._begin) & ((place == SOURCE) | (place == TARGET))
            bounds = len(WORDS), self._first_object
        return with_other_value(tokens, where & (tokens != self.pad), *bounds, generator)

    def parse(self, text: str) -> Batch:
        """A text in the form of the docstring, in plain words."""
        ids = torch.tensor([self.vocabulary.encode(text.replace(",", " , ").replace(".", " . "))])
        n_moves, rest = divmod(ids.shape[1] - self._begin, MOVE)
        if rest or not 1 <= n_moves <= self.max_moves:
            raise ValueError(
                f"type {self.n_filled} clauses as 'the apple is in Box A' in one sentence, then 1 to {self.max_moves} "
                f"sentences as 'Move the contents of Box A to Box B .'; {ids.shape[1]} words are not that"
            )
        form = self._form(n_moves)[None]
        bounds = torch.tensor([len(WORDS), self._first_object, self.pad])  # of words, boxes and objects
        kinds, form_kinds = (torch.bucketize(each, bounds, right=True) for each in (ids, form))
        other = ((ids != form) & (form < len(WORDS))).nonzero()
        if not len(other):
            other = (kinds != form_kinds).nonzero()
        if len(other):
            at = int(other[0, 1])
            got, want = self.vocabulary.words[int(ids[0, at])], self.vocabulary.words[int(form[0, at])]
            want = ("", "a box", "an object")[int(form_kinds[0, at])] or repr(want)
            raise ValueError(f"word {at + 1} is {got!r}, where {want} was expected")
        self._check_story(ids)
        return self._batch(ids)

    def _check_story(self, ids: Int[Tensor, "1 pos"]) -> None:
        """Raise ValueError if a box or object is named twice in the first sentence, or a move cannot be made."""
        words = self.vocabulary.decode(ids[0])
        for first, what in ((OBJECT, "the "), (BOX, "Box ")):
            named = words[first : self._begin : HOLDS]
            if twice := next((name for name in named if named.count(name) > 1), None):
                raise ValueError(f"{what}{twice} is named twice in the first sentence")
        wrong = (self._followed(ids)[0][0] < 0).nonzero()
        if len(wrong):
            start = self._begin + MOVE * int(wrong[0, 0])
            raise ValueError(
                f"{' '.join(words[start : start + MOVE - 1])!r} cannot be done: the one box must hold something, and "
                "the other nothing"
            )
