"""Modular addition from a part of all pairs: models first learn these by heart, and later grok a Fourier method."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Bool, Int
from pydantic import Field
from torch import Tensor

from workbench.tasks.base import Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import choose, other_value
from workbench.tasks.split import fingerprints
from workbench.tasks.vocabulary import Vocabulary


class ModularAddition(Task):
    """Two numbers below p; the answer is their sum modulo p.

    p=53:

        position   0  1  2
        token     40 21  =
        target           8

    There are p² questions, and a model trains on a part of them alone, `train_fraction`, as in "Progress measures for
    grokking via mechanistic interpretability" (Nanda et al., 2023, arXiv 2301.05217), where p = 113 and the part is
    0.3. A fingerprint decides which: the order of the two numbers matters to it, as there.

    Labels, where scored: `wraps` (1 where the sum is p or more, else 0), `first`, `second` (the two numbers), `sum`
    (the answer), all three tokens. Gold edges: hop 1 leads from = to both numbers.
    """

    name: ClassVar[str] = "modular_addition"
    summary: ClassVar[str] = "the sum of two numbers modulo p, learned from a part of all pairs"
    group: ClassVar[str] = "wraps"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("first", "second", "sum")
    pair_kinds: ClassVar[dict[str, str]] = {
        "numbers": "one number is replaced; in a control both, so that their sum stays"
    }
    n_ctx: ClassVar[int] = 3
    groups: ClassVar[tuple[int, ...]] = (0, 1)

    p: int = Field(53, ge=7, le=1009, description="the modulus")
    train_fraction: float = Field(0.4, gt=0, lt=1, description="part of the p² pairs that is trained on")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary((*map(str, range(self.p)), "="))

    @property
    def delimiters(self) -> tuple[int, ...]:
        return (self.p,)

    @property
    def test_share(self) -> float:
        return 1 - self.train_fraction

    def is_test(self, tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, " batch"]:
        part = (fingerprints(tokens, self.question_length(tokens)) >> np.uint64(11)) / 2.0**53
        return torch.from_numpy(part >= self.train_fraction)

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        return self._batch(torch.randint(0, self.p, (n, 2), generator=generator))

    def every(self) -> Batch:
        """All p² questions in order, the first number slowest."""
        return self._batch(torch.cartesian_prod(torch.arange(self.p), torch.arange(self.p)))

    def _batch(self, numbers: Int[Tensor, "batch 2"]) -> Batch:
        tokens = torch.cat([numbers, torch.full_like(numbers[:, :1], self.p)], dim=1)
        scored = (torch.arange(3) == 2).expand_as(tokens)
        return Batch(tokens, torch.where(scored, numbers.sum(1, keepdim=True) % self.p, 0), scored)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        example = torch.arange(len(tokens)).repeat_interleave(2)
        key = torch.arange(2).repeat(len(tokens))
        edges = torch.stack([example, torch.ones_like(key), torch.full_like(key, 2), key], dim=1)
        total = tokens[:, :2].sum(1)
        at_end = {"wraps": (total >= self.p).long(), "first": tokens[:, 0], "second": tokens[:, 1]}
        at_end["sum"] = total % self.p
        nothing = torch.full_like(tokens, -1)
        labels = {name: torch.cat([nothing[:, :2], value[:, None]], dim=1) for name, value in at_end.items()}
        return Truth(edges, labels)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        at = choose((torch.arange(3) < 2).expand_as(tokens), generator)
        value = tokens.gather(1, at)
        new = other_value(value, 0, self.p, generator)
        replaced = tokens.scatter(1, at, new)
        both = replaced.scatter(1, 1 - at, (replaced.gather(1, 1 - at) + value - new) % self.p)
        return torch.where(torch.rand(len(tokens), 1, generator=generator) < 0.5, replaced, both)

    def parse(self, text: str) -> Batch:
        """Two numbers, with or without = behind them; a + between them may be written."""
        words = text.replace("+", " ").replace("=", " = ").split()
        words = words[:-1] if words[-1:] == ["="] else words
        if len(words) != 2 or not all(word.isdecimal() and int(word) < self.p for word in words):
            raise ValueError(f"type two numbers from 0 to {self.p - 1}, such as '3 4 =', not {text!r}")
        return self._batch(torch.tensor([[int(word) for word in words]]))
