"""Longest increasing subsequence, with its dynamic programme as chain of thought (Seq-VCR, §4.1; after Feng et al.)."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.lengths import tested_lengths
from workbench.tasks.pairs import with_other_value
from workbench.tasks.split import in_question
from workbench.tasks.vocabulary import Vocabulary
from workbench.util.seeds import numpy_generator

_MARKS = ("####", "||", "</pause_start>", "<pause>", "</pause_end>", "PAD")


class LongestIncreasingSubsequence(Task):
    """Numbers, then the length of the longest strictly increasing subsequence; the loss is on the answer.

    With length=6 and values=30:

        plain               12 25 9 14 14 20 #### 3
        pause               12 25 9 14 14 20 </pause_start> <pause> <pause> </pause_end> #### 3
        chain_of_thought    12 25 9 14 14 20 || 1 2 1 2 2 3 #### 3

    Numbers 0..length stand for lengths; those of the sequence are length+1..values−1. One to three increasing runs are
    planted. Their total size is uniform over runs..length and is split at uniform places; each run has distinct values
    at random positions. All other numbers are uniform with repeats. The chain of thought is the array of the dynamic
    programme; with it, the loss is on everything after ||.

    Labels: `longest_ending_here` (at each number: the length of the longest increasing subsequence that ends there),
    `witness` (at each number: 1 on one longest subsequence, 0 off it), `length` (how many numbers, where scored). Gold
    edges of hop 1: from a number to those that can stand before it in the longest subsequence that ends there; from the
    position that predicts the answer to every number where a longest one ends.
    """

    name: ClassVar[str] = "lis"
    summary: ClassVar[str] = "numbers, and the length of their longest increasing subsequence"
    group: ClassVar[str] = "length"
    unit: ClassVar[Literal["sequence"]] = "sequence"
    answer_mark: ClassVar[str] = "####"
    pair_kinds: ClassVar[dict[str, str]] = {"number": "one number of the sequence is replaced by another"}

    length: int = Field(50, ge=2, le=LONGEST, description="most numbers in a sequence")
    min_length: int | None = Field(None, ge=2, description="fewest; by default all have as many")
    values: int = Field(250, ge=4, le=4 * LONGEST, description="numbers are below this")
    mode: Literal["plain", "pause", "chain_of_thought"] = Field("plain", description="what stands before the answer")
    n_pause: int = Field(4, ge=0, le=LONGEST, description="pause tokens between their delimiters, in mode pause")

    @model_validator(mode="after")
    def _settings_fit(self) -> LongestIncreasingSubsequence:
        if self.shortest > self.length:
            raise ValueError(f"lis needs min_length <= length, not {self.shortest} > {self.length}")
        if self.values - self.length - 1 < self.length:
            need = f"length={self.length} can plant {self.length} distinct numbers above it"
            raise ValueError(f"lis with {need}: values must be at least {2 * self.length + 1}, not {self.values}")
        return self

    @property
    def shortest(self) -> int:
        return self.min_length or self.length

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*map(str, range(self.values)), *_MARKS))

    @property
    def n_ctx(self) -> int:
        between = {"plain": 0, "pause": self.n_pause + 2, "chain_of_thought": self.length + 1}[self.mode]
        return self.length + between + 2

    @property
    def delimiters(self) -> tuple[int, ...]:
        return tuple(self.vocabulary.id(mark) for mark in ("####", "||", "</pause_start>"))

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.shortest, self.length + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        return tuple({"length": length} for length in tested_lengths(self.name, self.shortest, self.length, None))

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", length: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "length")
        if length is not None and not self.shortest <= length <= self.length:
            raise ValueError(f"length must be between {self.shortest} and {self.length}, not {length}")
        rng = numpy_generator(generator)
        low, high = (self.shortest, self.length) if length is None else (length, length)
        lengths = rng.integers(low, high + 1, n)
        numbers = rng.integers(self.length + 1, self.values, (n, int(lengths.max())))
        for row, size in zip(numbers, lengths.tolist(), strict=True):  # one to three increasing runs at random places
            n_runs = int(rng.integers(1, min(3, size) + 1))
            planted = int(rng.integers(n_runs, size + 1))
            cuts = np.sort(rng.permutation(planted - 1)[: n_runs - 1] + 1).tolist()
            places = rng.permutation(size)
            for begin, end in pairwise([0, *cuts, planted]):
                values = rng.choice(self.values - self.length - 1, end - begin, replace=False)
                row[np.sort(places[begin:end])] = np.sort(values) + self.length + 1
        return self._batch(torch.from_numpy(numbers), torch.from_numpy(lengths))

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        question = in_question(tokens, self.question_length(tokens))
        return with_other_value(tokens, question, self.length + 1, self.values, generator)

    def _batch(self, numbers: Int[Tensor, "batch number"], lengths: Int[Tensor, " batch"]) -> Batch:
        n, width = numbers.shape
        inside = torch.arange(width) < lengths[:, None]
        best = _programme(torch.where(inside, numbers, 0)) * inside
        ids = {mark: self.vocabulary.id(mark) for mark in _MARKS}

        def mark(*names: str) -> Tensor:
            return torch.tensor([ids[name] for name in names]).expand(n, -1)

        parts = [torch.where(inside, numbers, -1)]
        if self.mode == "pause":
            parts.append(mark("</pause_start>", *["<pause>"] * self.n_pause, "</pause_end>"))
        if self.mode == "chain_of_thought":
            parts += [mark("||"), torch.where(inside, best, -1)]
        whole = torch.cat([*parts, mark("####"), best.amax(-1, keepdim=True)], dim=1)
        ends = (whole >= 0).sum(-1)
        tokens = torch.full((n, int(ends.max())), self.pad)
        tokens[torch.arange(tokens.shape[1]) < ends[:, None]] = whole[whole >= 0]
        return Batch.next_token(tokens, lengths if self.mode == "chain_of_thought" else ends - 2, ends - 1)

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """The number of leading numbers: these are the question in every mode, so all modes have the same test set."""
        return (tokens >= self.values).long().argmax(-1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        lengths, ends = self.question_length(tokens), self.lengths(tokens)
        position = torch.arange(tokens.shape[1])
        inside = position < lengths[:, None]
        width, best = int(lengths.max()), torch.zeros_like(tokens)
        best[:, :width] = _programme(torch.where(inside, tokens, 0)[:, :width])
        best *= inside
        final = inside & (best == best.amax(-1, keepdim=True))
        # [batch, number, number]: which can stand before which. What is outside has length 0, and stands behind all.
        numbers, length, order = tokens[:, :width].int(), best[:, :width].int(), position[:width]
        before = (length[:, :, None] == length[:, None, :] + 1) & (numbers[:, :, None] > numbers[:, None, :])
        before &= order[:, None] > order
        rows, answer = torch.arange(len(tokens)), ends - 2
        witness = torch.zeros_like(tokens)
        at = (final * (position + 1)).argmax(-1)
        for _ in range(int(best.max())):
            witness[rows, at] = 1
            earlier = before[rows, at]
            at = torch.where(earlier.any(-1), (earlier * (order + 1)).argmax(-1), at)
        first = lengths if self.mode == "chain_of_thought" else answer
        scored = (position >= first[:, None]) & (position < ends[:, None] - 1)
        example, longest = final.nonzero(as_tuple=True)
        edges = torch.cat([before.nonzero(), torch.stack([example, answer[example], longest], dim=1)])
        example, query, key = edges[edges[:, 0].argsort(stable=True)].unbind(1)
        labels = {
            "longest_ending_here": torch.where(inside, best, -1),
            "witness": torch.where(inside, witness, -1),
            "length": torch.where(scored, lengths[:, None], -1),
        }
        return Truth(torch.stack([example, torch.ones_like(example), query, key], dim=1), labels)

    def parse(self, text: str) -> Batch:
        """One example from numbers between length+1 and values−1."""
        words = text.replace(",", " ").split("#")[0].split("|")[0].split()
        if not self.shortest <= len(words) <= self.length:
            many = f"exactly {self.length}" if self.shortest == self.length else f"{self.shortest} to {self.length}"
            within = f"from {self.length + 1} to {self.values - 1}"
            raise ValueError(f"type {many} numbers {within}, not {len(words)}")
        for word in words:
            if not (word.isascii() and word.isdecimal() and self.length < int(word) < self.values):
                raise ValueError(f"{word!r} is not a number between {self.length + 1} and {self.values - 1}")
        return self._batch(torch.tensor([[int(word) for word in words]]), torch.tensor([len(words)]))


def _programme(numbers: Int[Tensor, "batch number"]) -> Int[Tensor, "batch number"]:
    """For each number, the length of the longest strictly increasing subsequence that ends there.

    By patience sorting: of the subsequences of each length so far, the least number at which one ends is kept. They
    ascend, and a number goes in the place of the first that is not below it.
    """
    best = torch.empty_like(numbers)
    ends = torch.full_like(numbers, torch.iinfo(numbers.dtype).max)
    for i, number in enumerate(numbers.contiguous().split(1, dim=1)):
        place = torch.searchsorted(ends, number.contiguous())
        ends.scatter_(1, place, number)
        best[:, i : i + 1] = place + 1
    return best
