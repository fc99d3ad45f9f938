"""Boxes: which item is where after many operations; the entity-tracking task of the ChaCAL paper (§5.2)."""

from __future__ import annotations

from functools import cached_property
from itertools import chain, groupby
from string import ascii_uppercase
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.boxes_story import Story, Style, read
from workbench.tasks.boxes_world import OBJECTS, WORDS, World
from workbench.tasks.pairs import choose, other_value, with_other_value
from workbench.tasks.vocabulary import Vocabulary


class Boxes(Task):
    """What every box holds at first, then operations on them, then what every box holds at the end.

        The radio is in Box B , there is nothing in Box C , the bone and the clock are in Box A .
        Put the tea into Box C . Move the contents of Box B to Box C . Remove the bone from Box A .
        Box A contains the clock , Box B is empty , Box C contains the radio and the tea .     (scored)

    `default` (the look is that of Table 5; the paper does not say how it is drawn, and this is as the public data are):
    items per box are Poisson(2), at most `capacity`; each operation is uniform over put, remove
    and move, over boxes, and over the non-empty sets of items that it could act on (for put, of `capacity` random items
    that are in no box), drawn again if a box would overflow or has nothing to take; a move of all that a box holds says
    "the contents of".

    `advanced` (Table 6): half of the boxes hold something, moves are always "the contents of", their number is
    log-uniform, P(k) = ln((k + 1) / k) / ln((max + 1) / min); empty boxes are not named. The paper's words, "only half
    boxes contain items", leave open whether that is so at the start or always; in its one example every operation keeps
    it so (moves go to empty boxes), each filled box starts with one item, and they stand in alphabetical order. These
    readings are the defaults of `filled`, `start` and `order`.

    The answer of `ask="one"` is about one box, named after the text: `… Box C` → `contains the radio and the tea .`

    Labels: `operations` (how many, where scored), `clause` (number of the clause, in the text), `depth` (at a clause's
    last token: how many clauses one after the other led to what it says). Arrays: `contents`
    `[batch, clause, box, object]` bool (after each clause), `graph_depth` and `layers` `[batch]` (of the graph of
    clauses; what Theorem 1 asks of a standard transformer). Gold edges: hop h leads from a clause's last token to the
    last tokens of the clauses h steps before it in that graph; and from an answer's words about a box to the clause
    that last changed it, hop 1.
    """

    name: ClassVar[str] = "boxes"
    summary: ClassVar[str] = "items put into, removed from and moved between boxes; say what is where at the end"
    group: ClassVar[str] = "operations"
    unit: ClassVar[Literal["sequence"]] = "sequence"
    pair_kinds: ClassVar[dict[str, str]] = {
        "operation": "one box that an operation names is replaced by another, where that can be done",
        "item": "an item is replaced, wherever the text names it, by one that it does not name",
    }

    style: Style = Field("default", description="the paper's two versions; decides what is left open below")
    n_boxes: int | None = Field(None, ge=2, le=26, description="default 7, advanced 8")
    n_objects: int = Field(100, ge=2, le=100, description="different items")
    min_operations: int | None = Field(None, ge=0, le=LONGEST, description="default 32, advanced 1")
    max_operations: int | None = Field(None, ge=0, le=LONGEST, description="default 32, advanced 31")
    capacity: int = Field(3, ge=1, description="most items in a box")
    filled: Literal["any", "half_start", "half_always"] | None = Field(
        None, description="boxes that hold something: any number, or half at the start or always (advanced: always)"
    )
    start: Literal["poisson", "one"] | None = Field(None, description="items in a filled box (advanced: one)")
    moves: Literal["mixed", "contents"] | None = Field(
        None, description="moves name their items unless they take all, or always take all (advanced)"
    )
    order: Literal["shuffled", "alphabetical"] | None = Field(
        None, description="order of the boxes in the first sentence (advanced: alphabetical)"
    )
    ask: Literal["all", "one"] = Field("all", description="what every box holds, or one of them")

    @model_validator(mode="after")
    def _settings_fit(self) -> Boxes:
        if self.operations[0] > self.operations[1]:
            low, high = self.operations
            raise ValueError(f"boxes needs min_operations <= max_operations, not {low} > {high}")
        if self.boxes * self.capacity > self.n_objects:
            needed = f"{self.boxes} boxes of {self.capacity} items need {self.boxes * self.capacity} names"
            raise ValueError(f"{needed}, but n_objects is {self.n_objects}")
        return self

    def _or(self, value: Any, default: Any, advanced: Any) -> Any:
        """A setting's value, or where it is None that of the style."""
        return value if value is not None else default if self.style == "default" else advanced

    @property
    def boxes(self) -> int:
        return int(self._or(self.n_boxes, 7, 8))

    @property
    def operations(self) -> tuple[int, int]:
        """The fewest and the most operations."""
        return self._or(self.min_operations, 32, 1), self._or(self.max_operations, 32, 31)

    @property
    def _naming(self) -> int:
        """Tokens that name the box that is asked about, after the text."""
        return 2 if self.ask == "one" else 0

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*WORDS, *ascii_uppercase[: self.boxes], *OBJECTS[: self.n_objects], "PAD"))

    @property
    def n_ctx(self) -> int:
        items = 3 * self.capacity - 1
        return self.boxes * (items + 5) + self.operations[1] * (items + 8) + self.boxes * (items + 4)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.operations[0], self.operations[1] + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        low, high = self.operations
        span = {round(low * (high / low) ** (i / 5)) if low else round(high * i / 5) for i in range(6)}
        return tuple({"operations": count} for count in sorted(span))

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", operations: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "operations")
        low, high = self.operations
        if operations is not None and not 0 <= operations <= high:
            raise ValueError(f"operations must be between 0 and {high}, not {operations}")
        if operations is not None:
            counts = torch.full((n,), operations)
        elif self.style == "advanced" and low:
            chance = torch.rand(n, generator=generator, dtype=torch.float64)
            counts = (low * ((high + 1) / low) ** chance).long().clamp(low, high)
        else:
            counts = torch.randint(low, high + 1, (n,), generator=generator)
        world = World(self, n, generator)
        world.describe(self._or(self.order, "shuffled", "alphabetical") == "shuffled")
        world.operate(counts.tolist())
        start = torch.tensor([len(text) for text in world.texts]) - 1 + self._naming
        world.conclude(self.ask == "one")
        lengths = torch.tensor([len(text) for text in world.texts])
        tokens = torch.full((n, int(lengths.max())), self.pad)
        words = np.fromiter(chain.from_iterable(world.texts), dtype=np.int64)
        tokens[torch.arange(tokens.shape[1]) < lengths[:, None]] = torch.from_numpy(words)
        return Batch.next_token(tokens, start, lengths - 1)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        """See `Task.changed_question`. The box that is asked about stays.

        Items stay in alphabetical order within a phrase, as the task writes them: a text that would not is not changed.
        """
        first_box, first_item = len(WORDS), len(WORDS) + self.boxes
        text_ends = self.question_length(tokens) - self._naming
        in_text = torch.arange(tokens.shape[1]) < text_ends[:, None]
        if kind == "operation":
            behind_first_sentence = (tokens == self.vocabulary.id(".")).cumsum(-1) > 0
            named = in_text & behind_first_sentence & (tokens >= first_box) & (tokens < first_item)
            return with_other_value(tokens, named, first_box, first_item, generator)
        end = first_item + self.n_objects
        items = in_text & (tokens >= first_item) & (tokens < end)
        old = tokens.gather(1, choose(items, generator))
        new = other_value(old, first_item, end, generator)
        changed = torch.where(items & (tokens == old), new, tokens)
        next_item = changed.roll(-3, dims=1)  # in “x and the y”
        follows = items & (tokens.roll(-1, dims=1) == self.vocabulary.id("and"))
        allowed = ~((items & (tokens == new)).any(-1) | (follows & (changed > next_item)).any(-1))
        return torch.where(allowed[:, None] & items.any(-1, keepdim=True), changed, tokens)

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The length of the text up to the first sentence that begins with a box; with `ask="one"`, also that box."""
        stop, box = self.vocabulary.id("."), self.vocabulary.id("Box")
        after_stop = torch.nn.functional.pad(tokens[:, :-1] == stop, (1, 0))
        begins = after_stop & ((tokens == box) | (tokens == stop))
        return begins.long().argmax(-1) + self._naming

    def words_of(self, tokens: Int[Tensor, " pos"]) -> str:
        """Tokens as running text."""
        return " ".join(self.words(tokens)).replace(" ,", ",").replace(" .", ".")

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        return self.words_of(tokens[: int(self.question_length(tokens[None]))])

    def parse(self, text: str) -> Batch:
        """A text in the forms of the docstring, in plain words; with `ask="one"` it ends with `Box A`."""
        story_text, words = text.strip(), _split(text)
        box = words[-1] if self.ask == "one" and len(words) > 2 and words[-2] == "Box" else None
        if self.ask == "one":
            if box is None or words[-3] != ".":
                raise ValueError("end the text with a full stop and the box that is asked about, as in '… . Box A'")
            story_text, words = story_text[: story_text.rindex("Box")], words[:-2]
        elif not words or words[-1] != ".":
            raise ValueError("end the text with a full stop")
        story = read(story_text)
        named, letters = [*story.named, *([box] if box else [])], ascii_uppercase[: self.boxes]
        unknown = [name for name in named if name not in letters]
        if unknown:
            raise ValueError(f"there is no Box {unknown[0]} here, only A to {letters[-1]}")
        ending = story.answers(self.style) if box is None else f"Box {box} {story.answer(box)}."
        words += _split(ending)
        if len(words) > self.n_ctx:
            raise ValueError(f"the text has {len(words)} words with its answer, but at most {self.n_ctx} fit")
        tokens = torch.tensor([self.vocabulary.encode(words)])
        return Batch.next_token(tokens, self.question_length(tokens) - 1, tokens.shape[1] - 1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        question_ends = (self.question_length(tokens) - self._naming).tolist()
        ends = self.lengths(tokens).tolist()
        labels = {name: torch.full_like(tokens, -1) for name in ("operations", "clause", "depth")}
        operations, clauses, depths = (label.numpy() for label in labels.values())  # quicker, place by place
        stories, edges = [], []
        for i, row in enumerate(tokens.tolist()):
            words = [self.vocabulary.words[token] for token in row[: ends[i]]]
            story = read(" ".join(words[: question_ends[i]]))
            last = [at for at in range(question_ends[i]) if words[at] in ".,"]
            count = words[: question_ends[i]].count(".") - 1  # sentences after the first
            first_scored = question_ends[i] - 1 + self._naming
            operations[i, first_scored : ends[i] - 1] = count
            begin = 0
            for clause, end in enumerate(last):
                clauses[i, begin : end + 1] = clause
                depths[i, end] = story.depth[clause]
                begin = end + 1
            edges += [(i, *edge) for edge in story.edges(last, words, question_ends[i])]
            stories.append(story)
        depth = torch.tensor([max(story.depth) for story in stories])
        layers = torch.tensor([story.layers for story in stories])
        arrays = {"contents": self._contents(stories), "graph_depth": depth, "layers": layers}
        return Truth(torch.tensor(edges, dtype=torch.long).reshape(-1, 4), labels, arrays)

    def states(self, tokens: Int[Tensor, " pos"]) -> dict[str, list[tuple[int, int, str]]]:
        """The contents of each box after each clause; clauses that leave them as they are form one stretch."""
        truth = self.truth(tokens[None])
        clauses, held = truth.labels["clause"][0], truth.arrays["contents"][0]
        by_box: dict[str, list[tuple[int, int, str]]] = {}
        for box in range(self.boxes):
            words = [", ".join(OBJECTS[i] for i in items.nonzero()[:, 0].tolist()) for items in held[:, box]]
            stretches = []
            for same, alike in groupby(range(len(words)), key=words.__getitem__):
                first, *others = alike
                where = ((clauses >= first) & (clauses <= max(others, default=first))).nonzero()[:, 0]
                stretches.append((int(where[0]), int(where[-1]), same))
            if any(words):
                by_box[f"Box {ascii_uppercase[box]}"] = stretches
        return by_box

    def _contents(self, stories: list[Story]) -> Bool[Tensor, "batch clause box object"]:
        n_clauses = max(len(story.contents) for story in stories)
        held = torch.zeros(len(stories), n_clauses, self.boxes, self.n_objects, dtype=torch.bool)
        where = {name: i for i, name in enumerate(OBJECTS[: self.n_objects])}
        places = held.numpy()  # quicker, place by place
        for i, story in enumerate(stories):
            for clause, contents in enumerate(story.contents):
                for box, items in contents.items():
                    for item in items:
                        places[i, clause, ascii_uppercase.index(box), where[item]] = True
        return held


def _split(text: str) -> list[str]:
    """The words and punctuation marks of a text."""
    return text.replace(",", " , ").replace(".", " . ").split()
