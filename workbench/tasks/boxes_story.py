"""Reading a text of the task boxes: the contents of each box after each clause, and what each clause depends on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Style = Literal["default", "advanced"]

_PATTERNS = {
    "nothing": re.compile(r"there is nothing in box (\w+)", re.I),
    "holds": re.compile(r"(the .+?) (?:is|are) in box (\w+)", re.I),
    "put": re.compile(r"put (the .+?) into box (\w+)", re.I),
    "remove": re.compile(r"remove (the .+?) from box (\w+)", re.I),
    "contents": re.compile(r"move the contents of box (\w+) to box (\w+)", re.I),
    "move": re.compile(r"move (the .+?) from box (\w+) to box (\w+)", re.I),
}
_EXPECTED = (
    "'the x is in Box A', 'there is nothing in Box A', 'Put the x into Box A', 'Remove the x and the y from Box A', "
    "'Move the x from Box A to Box B', 'Move the contents of Box A to Box B'"
)


@dataclass
class Story:
    """A boxes text, read clause by clause (a clause ends with a comma or a full stop).

    Attributes:
        contents: box -> items, sorted, after each clause; a box is there once it has been named.
        depends: the earlier clauses whose result each clause needs: those that last set the boxes that it changes; a
            clause that emptied a box is needed by none.
        depth: the length of the longest chain of clauses that each clause depends on; 0 if it depends on none.
        named: every box, in alphabetical order.
    """

    contents: list[dict[str, tuple[str, ...]]] = field(default_factory=list)
    depends: list[tuple[int, ...]] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    _boxes: dict[str, set[str]] = field(default_factory=dict)
    _writer: dict[str, int] = field(default_factory=dict)
    _changed: dict[str, int] = field(default_factory=dict)

    @property
    def named(self) -> list[str]:
        return sorted(self._boxes)

    def answer(self, box: str) -> str:
        """The contents of one box in words: `contains the x and the y`, or `is empty`."""
        items = sorted(self._boxes.get(box, ()))
        return f"contains {_phrase(items)}" if items else "is empty"

    def answers(self, style: Style) -> str:
        """The contents of every box in words, in alphabetical order; `advanced` leaves empty boxes out."""
        kept = [box for box in self.named if style == "default" or self._boxes[box]]
        return ", ".join(f"Box {box} {self.answer(box)}" for box in kept) + "."

    def hear(self, clause: str) -> None:
        """Read one clause, and change the contents as it says.

        Raises:
            ValueError: if it has none of the known forms, or cannot be done (an item is not where it should be).
        """
        matches = ((kind, pattern.fullmatch(clause)) for kind, pattern in _PATTERNS.items())
        kind, match = next(((kind, match) for kind, match in matches if match), (None, None))
        if match is None:
            raise ValueError(f"{clause!r} is not a sentence about boxes; there is: {_EXPECTED}")
        groups = match.groups()
        if kind == "nothing":
            self._begin(groups[0], [])
        elif kind == "holds":
            self._begin(groups[1], _items(groups[0]))
        elif kind == "put":
            items = _items(groups[0])
            self._not_anywhere(items)
            self._change({groups[1]: (items, [])})
        elif kind == "remove":
            self._change({groups[1]: ([], _items(groups[0]))})
        else:
            source, target = groups[-2], groups[-1]
            if source == target:
                raise ValueError(f"{clause!r} moves from a box to itself")
            items = sorted(self._boxes.get(source, ())) if kind == "contents" else _items(groups[0])
            self._change({target: (items, []), source: ([], items)}, whole=source if kind == "contents" else None)

    def _begin(self, box: str, items: list[str]) -> None:
        if box in self._boxes:
            raise ValueError(f"the contents of Box {box} are given twice")
        self._not_anywhere(items)
        self._boxes[box] = set(items)
        self._note((box,))

    def _change(self, changes: dict[str, tuple[list[str], list[str]]], whole: str | None = None) -> None:
        depends = tuple(sorted({self._writer[box] for box in changes if box in self._writer}))
        for box, (added, taken) in changes.items():
            held = self._boxes.setdefault(box, set())
            missing = [item for item in taken if item not in held]
            if missing:
                there = _phrase(sorted(held)) if held else "nothing"
                raise ValueError(f"the {missing[0]} is not in Box {box}, which holds {there}")
            held.difference_update(taken)
            held.update(added)
        self._note(changes, depends)
        if whole is not None:
            del self._writer[whole]  # it is empty now, whatever it held before: later clauses need nothing of it

    def _note(self, changed: Iterable[str], depends: tuple[int, ...] = ()) -> None:
        for box in changed:
            self._changed[box] = self._writer[box] = len(self.depth)
        before = self.contents[-1] if self.contents else {}
        self.contents.append(before | {box: tuple(sorted(self._boxes[box])) for box in changed})
        self.depends.append(depends)
        self.depth.append(1 + max((self.depth[clause] for clause in depends), default=-1))

    def _not_anywhere(self, items: list[str]) -> None:
        for box, held in self._boxes.items():
            for item in items:
                if item in held:
                    raise ValueError(f"the {item} is in Box {box} already")

    @property
    def layers(self) -> int:
        """Attention layers that a standard transformer needs: ⌈log₂(depth + 1)⌉ (Theorem 1 of the ChaCAL paper)."""
        return math.ceil(math.log2(max(self.depth, default=0) + 1))

    def edges(self, last: list[int], words: list[str], question_end: int) -> list[tuple[int, int, int]]:
        """(hop, query, key): from each clause to those h steps before it, then from the answer's words about a box to
        the clause that last set this box.

        Args:
            last: the position of each clause's last token.
            words: the text with its answer.
            question_end: where the answer begins.
        """
        edges = []
        for clause, needed in enumerate(self.depends):
            reached, hop = set(needed), 1
            while reached:
                edges += [(hop, last[clause], last[key]) for key in sorted(reached)]
                reached = {before for key in reached for before in self.depends[key]}
                hop += 1
        box = None
        for at in range(question_end, len(words)):
            if words[at - 1] == "Box":
                box = words[at]
            if words[at] in ",.":
                box = None
            if box is not None and box in self._changed:
                edges.append((1, at, last[self._changed[box]]))
        return edges


def read(text: str) -> Story:
    """Read a whole text: the initial contents in one sentence, then one operation a sentence.

    Raises:
        ValueError: if a sentence is not understood or cannot be done; the message says which.
    """
    story = Story()
    for clause in re.split(r"[.,]", text):
        if clause.strip():
            try:
                story.hear(" ".join(clause.split()))
            except ValueError as error:
                raise ValueError(f"clause {len(story.contents) + 1}: {error}") from None
    if not story.contents:
        raise ValueError(f"the text has no clause; there is: {_EXPECTED}")
    return story


def _phrase(items: list[str]) -> str:
    return " and ".join(f"the {item}" for item in items)


def _items(phrase: str) -> list[str]:
    items = [part[4:] if part[:4].lower() == "the " else part for part in phrase.split(" and ")]
    doubled = [item for item in items if items.count(item) > 1]
    if doubled:
        raise ValueError(f"the {doubled[0]} is named twice in {phrase!r}")
    return items
