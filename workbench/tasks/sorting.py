"""Sorting: the task of the task-hinting paper, where length generalisation and its mechanism are studied."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import Batch, Task, Truth, Vocabulary


class Sorting(Task):
    """Symbols, the delimiter ⊥, then the same symbols in ascending order; the loss is on the output alone.

        input    5 3 3 9 ⊥ 3 3 5 9
        scored           ^ ^ ^ ^      (⊥ predicts the first output, each output the next)

    Token ids: symbol s is s − 1, ⊥ is q, PAD is q + 1. Draws are uniform with replacement; a share `repetition` of the
    sequences draws from only ⌈length/2⌉ distinct symbols.

    Labels (the first three are token ids): `minimum` (at ⊥), `identity` (at output positions: their own token),
    `successor` (at output positions but the last: the next output), `copies_left` (at output positions: how many
    more of that symbol are still to come), `length` (at ⊥ and output positions: the number of symbols). Gold edges of
    hop 1: from ⊥ to every input position that holds the minimum, from an output to those that hold the next output.
    """

    name: ClassVar[str] = "sorting"
    summary: ClassVar[str] = "symbols, a delimiter, then the same symbols sorted"
    group: ClassVar[str] = "length"
    unit: ClassVar[Literal["sequence"]] = "sequence"

    q: int = Field(32, ge=2, description="alphabet size: symbols are 1..q")
    min_length: int = Field(2, ge=1, description="shortest training sequence")
    max_length: int = Field(16, ge=1, description="longest training sequence")
    test_max_length: int | None = Field(None, ge=1, description="longest test sequence; by default max_length")
    skew: Literal["uniform", "paper"] = Field(
        "uniform", description="lengths equally likely, or 80 % equally in the shortest quarter and 20 % in the rest"
    )
    repetition: float = Field(0.1, ge=0, le=1, description="share of sequences with at most half as many symbols")

    @model_validator(mode="after")
    def _lengths_fit(self) -> Sorting:
        if self.min_length > self.max_length:
            raise ValueError(f"sorting needs min_length <= max_length, not {self.min_length} > {self.max_length}")
        if self.test_max_length is not None and self.test_max_length < self.max_length:
            longest = f"test_max_length={self.test_max_length} is below max_length={self.max_length}"
            raise ValueError(f"sorting tests at least the lengths it trains on, but {longest}")
        return self

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*(str(s) for s in range(1, self.q + 1)), "⊥", "PAD"))

    @property
    def longest(self) -> int:
        return self.test_max_length or self.max_length

    @property
    def n_ctx(self) -> int:
        return 2 * self.longest + 1

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.longest + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        span = torch.linspace(self.min_length, self.longest, 8).round().long().tolist()
        return tuple({"length": length} for length in sorted({*span, self.max_length}))

    def sample(self, n: int, generator: torch.Generator, *, length: int | None = None, **condition: Any) -> Batch:
        """Draw n sequences; all of one `length` if it is given.

        Raises:
            ValueError: if the length does not fit the context, or another condition is given.
        """
        self.refuse(condition, "length")
        if length is not None and not 1 <= length <= self.longest:
            raise ValueError(f"length must be between 1 and {self.longest}, not {length}")
        lengths = self._lengths(n, generator) if length is None else torch.full((n,), length)
        width = int(lengths.max())
        symbols = torch.randint(0, self.q, (n, width), generator=generator)
        few = torch.rand(n, generator=generator) < self.repetition
        # Half as many symbols: each place takes one of the first ⌈length/2⌉ of a random order of the alphabet.
        order = torch.rand(n, self.q, generator=generator).argsort(-1)
        half = ((lengths + 1) // 2).clamp(max=self.q)
        choice = (torch.rand(n, width, generator=generator) * half[:, None]).long()
        symbols = torch.where(few[:, None], order.gather(1, choice), symbols)
        return self._batch(symbols, lengths)

    def _lengths(self, n: int, generator: torch.Generator) -> Int[Tensor, " n"]:
        low, high = self.min_length, self.max_length
        if self.skew == "uniform" or low == high:
            return torch.randint(low, high + 1, (n,), generator=generator)
        edge = max(low, min(high - 1, -(-high // 4)))
        short = torch.randint(low, edge + 1, (n,), generator=generator)
        long = torch.randint(edge + 1, high + 1, (n,), generator=generator)
        return torch.where(torch.rand(n, generator=generator) < 0.8, short, long)

    def _batch(self, symbols: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"]) -> Batch:
        width, place = symbols.shape[1], torch.arange(symbols.shape[1])
        inside = place < lengths[:, None]
        ordered = torch.where(inside, symbols, self.q + 1).sort(-1).values
        tokens = torch.full((len(symbols), 2 * width + 1), self.q + 1)
        rows = torch.arange(len(symbols))[:, None].expand_as(symbols)
        tokens[rows[inside], place.expand_as(symbols)[inside]] = symbols[inside]
        tokens[torch.arange(len(symbols)), lengths] = self.q
        tokens[rows[inside], (lengths[:, None] + 1 + place)[inside]] = ordered[inside]
        targets = tokens.roll(-1, dims=1)
        position = torch.arange(tokens.shape[1])
        scored = (position >= lengths[:, None]) & (position < 2 * lengths[:, None])
        return Batch(tokens, torch.where(scored, targets, 0), scored)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        position = torch.arange(tokens.shape[1], device=tokens.device)
        delimiter = tokens == self.q
        length = delimiter.long().argmax(-1, keepdim=True)
        real = delimiter.any(-1, keepdim=True) & (tokens <= self.q)
        is_input = real & (position < length)
        is_output = real & (position > length)
        minimum = torch.where(is_input, tokens, self.q + 1).amin(-1, keepdim=True)
        following = tokens.roll(-1, dims=1)
        last = position == tokens.shape[1] - 1
        has_next = is_output & is_output.roll(-1, dims=1) & ~last
        same = tokens[:, :, None] == tokens[:, None, :]
        later = position[None, :] > position[:, None]
        copies_left = (same & later & is_output[:, None, :]).sum(-1)
        wanted = torch.where(delimiter, minimum, torch.where(has_next, following, -1))
        example, query, key = (is_input[:, None, :] & (tokens[:, None, :] == wanted[:, :, None])).nonzero(as_tuple=True)
        labels = {
            "minimum": torch.where(delimiter & real, minimum, -1),
            "identity": torch.where(is_output, tokens, -1),
            "successor": torch.where(has_next, following, -1),
            "copies_left": torch.where(is_output, copies_left, -1),
            "length": torch.where((delimiter & real) | is_output, length, -1),
        }
        return Truth(torch.stack([example, torch.ones_like(example), query, key], dim=1), labels)

    def question(self, tokens: Int[Tensor, " pos"]) -> str:
        return " ".join(self.words(tokens[: tokens.tolist().index(self.q)]))

    def parse(self, text: str) -> Batch:
        words = text.replace("⊥", " ⊥ ").replace(",", " ").split()
        words = words[: words.index("⊥")] if "⊥" in words else words
        if not 1 <= len(words) <= self.longest:
            raise ValueError(f"type 1 to {self.longest} numbers between 1 and {self.q}, not {len(words)}")
        for word in words:
            if not (word.isdecimal() and 1 <= int(word) <= self.q):
                raise ValueError(f"{word!r} is not a number between 1 and {self.q}")
        symbols = torch.tensor([[int(word) - 1 for word in words]])
        return self._batch(symbols, torch.tensor([len(words)]))
