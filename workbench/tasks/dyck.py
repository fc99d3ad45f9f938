"""Dyck words: brackets of several kinds, nested; after each one the bracket that may close is asked."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import choose, other_value
from workbench.tasks.vocabulary import Vocabulary

BRACKETS = ("()", "[]", "{}", "<>")
NOTHING = "·"


class Dyck(Task):
    """The beginning of a Dyck word; after each bracket the one closing bracket that may follow is asked.

    kinds=2, length 8:

        token      (  [  ]  [  (  )  ]  )
        target     )  ]  )  ]  )  ]  )  ·

    Dyck-(k, m) with k kinds and at most m brackets open at once (Hewitt et al., 2020, arXiv 2010.07515; attention can
    recognise it: Yao et al., 2021). Where fewer than m are open a bracket opens with probability 1/2, of a kind drawn
    uniformly, where none is open always; else the innermost one is closed. Where nothing is open the answer is `·`.

    Labels: `depth` (brackets open after this one), `closing` (the answer, a token), `opener` (the position of the
    innermost open bracket, −1 where there is none). Gold edges: hop h leads to the h-th open bracket from the inside.
    """

    name: ClassVar[str] = "dyck"
    summary: ClassVar[str] = "nested brackets; which one may close is asked after each of them"
    group: ClassVar[str] = "depth"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("closing",)
    pair_kinds: ClassVar[dict[str, str]] = {
        "kind": "one bracket becomes one of another kind, and so does the one that closes it"
    }

    kinds: int = Field(2, ge=1, le=len(BRACKETS), description="kinds of brackets")
    depth: int = Field(4, ge=1, le=64, description="most brackets open at once")
    length: int = Field(24, ge=2, le=LONGEST, description="brackets in a sequence")

    @model_validator(mode="after")
    def _something_differs(self) -> Dyck:
        if self.kinds == 1 and self.depth == 1:
            raise ValueError("dyck with one kind and depth 1 is one word; give kinds or depth of 2 or more")
        return self

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Opening brackets, then closing ones in the same order, then what stands for none."""
        own = BRACKETS[: self.kinds]
        return Vocabulary((*(pair[0] for pair in own), *(pair[1] for pair in own), NOTHING))

    @property
    def n_ctx(self) -> int:
        return self.length

    @property
    def bytes_each(self) -> int:
        return self.length * (17 + 8 * self.depth)

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.depth + 1))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        opens = torch.rand(n, self.length, generator=generator) < 0.5
        kind = torch.randint(0, self.kinds, (n, self.length), generator=generator)
        stack, depth, tokens = torch.zeros(n, self.depth + 1, dtype=torch.long), torch.zeros(n, dtype=torch.long), []
        rows = torch.arange(n)
        for at in range(self.length):
            opening = (opens[:, at] & (depth < self.depth)) | (depth == 0)
            top = (depth - 1).clamp(min=0)
            tokens.append(torch.where(opening, kind[:, at], self.kinds + stack[rows, top]))
            stack[rows, torch.where(opening, depth, self.depth)] = kind[:, at]
            depth = depth + torch.where(opening, 1, -1)
        return self._batch(torch.stack(tokens, dim=1))

    def _openers(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos depth"]:
        """The positions of the open brackets after each one, from the outside in; −1 behind the last."""
        n = len(tokens)
        stack, depth = torch.full((n, self.depth + 1), -1), torch.zeros(n, dtype=torch.long)
        rows, found = torch.arange(n), []
        for at, token in enumerate(tokens.cpu().T):
            opening = token < self.kinds
            stack[rows, torch.where(opening, depth, depth - 1).clamp(0, self.depth)] = torch.where(opening, at, -1)
            depth = (depth + torch.where(opening, 1, -1)).clamp(0, self.depth)
            found.append(stack[:, : self.depth].clone())
        return torch.stack(found, dim=1)

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        return Batch(tokens, self._labels(tokens)["closing"], torch.ones_like(tokens, dtype=torch.bool))

    def _labels(self, tokens: Int[Tensor, "batch pos"]) -> dict[str, Int[Tensor, "batch pos"]]:
        openers = self._openers(tokens)
        depth = (openers >= 0).sum(-1)
        opener = openers.gather(2, (depth - 1).clamp(min=0)[..., None])[..., 0]
        closing = self.kinds + tokens.cpu().gather(1, opener.clamp(min=0))
        return {"depth": depth, "closing": torch.where(depth > 0, closing, 2 * self.kinds), "opener": opener}

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        openers, labels = self._openers(tokens), self._labels(tokens)
        example, query, level = (openers >= 0).nonzero(as_tuple=True)
        hop = labels["depth"][example, query] - level
        return Truth(torch.stack([example, hop, query, openers[example, query, level]], dim=1), labels)

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        at = choose(tokens < self.kinds, generator)
        new = other_value(tokens.gather(1, at), 0, self.kinds, generator)
        # The bracket that closes it comes where it has been open and is not any more
        open_ = (self._openers(tokens) == at[..., None]).any(-1)
        closed = ~open_ & (torch.arange(tokens.shape[1]) > at)
        close = torch.where(closed.any(-1, keepdim=True), closed.long().argmax(-1, keepdim=True), at)
        changed = tokens.scatter(1, close, new + self.kinds)
        return changed.scatter(1, at, new)

    def parse(self, text: str) -> Batch:
        """Brackets, with or without spaces between them."""
        ids = self.vocabulary.encode(list(text.replace(" ", "")))
        if not 1 <= len(ids) <= self.length:
            raise ValueError(f"type 1 to {self.length} brackets of {' '.join(BRACKETS[: self.kinds])}, not {len(ids)}")
        stack: list[int] = []
        for at, token in enumerate(ids):
            if token < self.kinds:
                stack.append(token)
            elif token == 2 * self.kinds or not stack or stack.pop() != token - self.kinds:
                raise ValueError(f"{self.vocabulary.words[token]!r} at position {at} closes nothing that is open")
            if len(stack) > self.depth:
                raise ValueError(f"at position {at} more than {self.depth} brackets are open")
        return self._batch(torch.tensor([ids]))
