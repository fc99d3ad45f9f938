"""State tracking: the product of the elements of a group so far, after each of them (word problems of S5, parity)."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import combinations, permutations
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import choose, other_value
from workbench.tasks.vocabulary import Vocabulary

Group = Literal["parity", "S3", "S4", "A5", "S5"]
EDGES = 8  # moves back that have a gold edge: all of a long sequence would be half a matrix


class StateTracking(Task):
    """Elements of a group; after each one the product of all so far is asked, the state.

    group="S3", length 5; 231 puts what stood second first, what stood third second, what stood first third:

        token      132  231  213  132  321
        target     132  321  231  213  312

    The word problem of S5 is complete for NC¹, so that a transformer of fixed depth is not expected to solve it at
    every length (Liu et al., 2023, arXiv 2210.10749; Merrill & Sabharwal, 2023, arXiv 2207.00729); that of parity is
    easier, and yet hard to learn. An element is written as its images: the state after a move has `state[move[i]]` at
    place i. Parity is the group of 0 and 1.

    Labels: `step` (moves so far, from 1), `state` (the answer, a token). Gold edges: hop h leads from a move to the one
    h before it, up to 8.
    """

    name: ClassVar[str] = "state_tracking"
    summary: ClassVar[str] = "moves of a group; the state that they lead to is asked after each of them"
    group: ClassVar[str] = "step"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("state",)
    pair_kinds: ClassVar[dict[str, str]] = {
        "moves": "one move is replaced; in a control two neighbours, so that they lead to the same state"
    }

    states_of: Group = Field("S5", description="the group: parity (0 and 1), or permutations of 3, 4 or 5 things")
    moves: Literal["all", "swaps"] = Field("all", description="which elements are moves; swaps exchange two things")
    length: int = Field(12, ge=2, le=LONGEST, description="moves in a training sequence")
    test_length: int | None = Field(None, ge=2, le=LONGEST, description="moves of another test set")

    @model_validator(mode="after")
    def _moves_exist(self) -> StateTracking:
        if self.moves == "swaps" and self.states_of in ("parity", "A5"):
            raise ValueError(f"{self.states_of} has no element that swaps two things; moves is all for it")
        return self

    @cached_property
    def vocabulary(self) -> Vocabulary:
        if self.states_of == "parity":
            return Vocabulary(("0", "1"))
        return Vocabulary(tuple("".join(str(i + 1) for i in images) for images in _elements(self.states_of)))

    @property
    def n_ctx(self) -> int:
        return max(self.length, self.test_length or 0)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.n_ctx + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        return ({"length": self.length},) + (({"length": self.test_length},) if self.test_length else ())

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", length: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "length")
        length = self.length if length is None else length
        if not 1 <= length <= self.n_ctx:
            raise ValueError(f"length must be between 1 and {self.n_ctx}, not {length}")
        allowed = _moves(self.states_of, self.moves)
        return self._batch(allowed[torch.randint(0, len(allowed), (n, length), generator=generator)])

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        table, states = _table(self.states_of), [tokens[:, 0]]
        for move in tokens.T[1:]:
            states.append(table[states[-1], move])
        return Batch(tokens, torch.stack(states, dim=1), torch.ones_like(tokens, dtype=torch.bool))

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        n, n_pos = tokens.shape
        hop, query = torch.cartesian_prod(torch.arange(1, EDGES + 1), torch.arange(n_pos)).T
        of_one = torch.stack([hop, query, query - hop], dim=1)[query >= hop]
        edges = torch.cat([torch.arange(n).repeat_interleave(len(of_one))[:, None], of_one.repeat(n, 1)], dim=1)
        step = torch.arange(1, n_pos + 1).expand(n, -1)
        return Truth(edges, {"step": step, "state": self._batch(tokens).targets})

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        table, allowed = _table(self.states_of), _moves(self.states_of, self.moves)
        at = choose(torch.ones_like(tokens, dtype=torch.bool), generator)
        old = tokens.gather(1, at)
        number = (allowed[None] == old).long().argmax(-1, keepdim=True)
        new = allowed[other_value(number, 0, len(allowed), generator)]
        replaced = tokens.scatter(1, at, new)
        # The move after it, such that both together lead where they led
        after = (at + 1).clamp(max=tokens.shape[1] - 1)
        both = table[old, tokens.gather(1, after)]
        makes_up = (table[new[:, 0]] == both).long().argmax(-1, keepdim=True)
        possible = (after > at) & torch.isin(makes_up, allowed)
        undone = replaced.scatter(1, after, torch.where(possible, makes_up, replaced.gather(1, after)))
        return torch.where(torch.rand(len(tokens), 1, generator=generator) < 0.5, replaced, undone)

    def parse(self, text: str) -> Batch:
        ids = self.vocabulary.encode(text)
        if not 1 <= len(ids) <= self.n_ctx:
            raise ValueError(f"type 1 to {self.n_ctx} moves, such as {self.vocabulary.words[-1]!r}, not {len(ids)}")
        allowed = _moves(self.states_of, self.moves).tolist()
        wrong = next((self.vocabulary.words[i] for i in ids if i not in allowed), None)
        if wrong:
            raise ValueError(f"{wrong} is no move of this task, whose moves are {self.moves}")
        return self._batch(torch.tensor([ids]))


@lru_cache(maxsize=8)
def _elements(group: Group) -> tuple[tuple[int, ...], ...]:
    """The elements as images, the identity first; parity's as permutations of two things."""
    n = {"parity": 2, "S3": 3, "S4": 4, "A5": 5, "S5": 5}[group]
    every = permutations(range(n))
    if group != "A5":
        return tuple(every)
    return tuple(images for images in every if sum(a > b for a, b in combinations(images, 2)) % 2 == 0)  # the even ones


@lru_cache(maxsize=8)
def _table(group: Group) -> Int[Tensor, "state move"]:
    """The state after a move: what the new place i holds stood at place move[i]."""
    elements = _elements(group)
    number = {images: i for i, images in enumerate(elements)}
    return torch.tensor([[number[tuple(state[i] for i in move)] for move in elements] for state in elements])


@lru_cache(maxsize=16)
def _moves(group: Group, moves: str) -> Int[Tensor, " move"]:
    """The elements that are moves."""
    elements = _elements(group)
    fixed = [sum(i != image for i, image in enumerate(images)) for images in elements]
    return torch.tensor([i for i, moved in enumerate(fixed) if moves == "all" or moved == 2])
