"""In-context induction: a random sequence goes on with a piece of itself; what followed before follows again."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import with_other_value
from workbench.tasks.split import in_question
from workbench.tasks.vocabulary import Vocabulary


class Induction(Task):
    """Distinct symbols in random order, then again from one of them on; after the first of these the rest is predicted.

    q=26, length 5, from the second symbol on:

        position   0 1 2 3 4 | 5 6 7 8
        token      h c x a m | c x a m
        target               | x a m

    It is what induction heads do (Olsson et al., 2022, arXiv 2209.11895): find where the token came before, and predict
    what followed it. Lengths and starts are drawn, so that no fixed distance back is right; symbols are distinct, so
    that one token before is enough. The last symbol is never asked to be followed by anything.

    Labels, where scored: `length` (of the sequence before it comes again), `next` (the answer, a token), `earlier`
    (the position of the same token before). Gold edges: hop 1 leads from a token to what followed it before, hop 2 to
    where it came before.
    """

    name: ClassVar[str] = "induction"
    summary: ClassVar[str] = "random symbols go on with a piece of themselves: predict what followed before"
    group: ClassVar[str] = "length"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("next",)
    pair_kinds: ClassVar[dict[str, str]] = {
        "symbol": "one symbol, where it first stands, is replaced by one that is not there"
    }

    q: int = Field(32, ge=4, le=LONGEST, description="symbols")
    min_length: int = Field(6, ge=3, description="fewest symbols before they come again")
    max_length: int = Field(12, ge=3, description="most; at most q")

    @model_validator(mode="after")
    def _lengths_fit(self) -> Induction:
        if not self.min_length <= self.max_length <= self.q:
            raise ValueError(
                f"induction needs min_length <= max_length <= q, not {self.min_length}, {self.max_length}, {self.q}"
            )
        return self

    @cached_property
    def vocabulary(self) -> Vocabulary:
        letters = [chr(97 + i) if self.q <= 26 else f"s{i}" for i in range(self.q)]
        return Vocabulary((*letters, "PAD"))

    @property
    def n_ctx(self) -> int:
        return 2 * self.max_length

    @property
    def bytes_each(self) -> int:
        return 17 * self.n_ctx + 8 * self.q

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.min_length, self.max_length + 1))

    @property
    def conditions(self) -> tuple[dict[str, Any], ...]:
        """All lengths together; `length=8` draws one alone."""
        return ({},)

    def draw(
        self, n: int, generator: torch.Generator, *, head: str = "main", length: int | None = None, **condition: Any
    ) -> Batch:
        self.refuse(condition, "length")
        if length is not None and not 3 <= length <= self.max_length:
            raise ValueError(f"length must be between 3 and {self.max_length}, not {length}")
        low, high = (self.min_length, self.max_length) if length is None else (length, length)
        lengths = torch.randint(low, high + 1, (n, 1), generator=generator)
        symbols = torch.rand(n, self.q, generator=generator).argsort(-1)[:, :high]
        # From any symbol but the last, behind which nothing would be asked
        start = (torch.rand(n, 1, generator=generator) * (lengths - 1)).long()
        position = torch.arange(2 * high).expand(n, -1)
        at = torch.where(position < lengths, position, position - lengths + start)
        tokens = torch.where(at < lengths, symbols.gather(1, at.clamp(max=high - 1)), self.pad)
        return self.trimmed(self._batch(tokens))

    def question_length(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, " batch"]:
        """Up to the first token that comes again, with it."""
        came_before = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).any(-1)
        return (came_before & (tokens != self.pad)).long().argmax(-1) + 1

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        return Batch.next_token(tokens, self.question_length(tokens) - 1, self.lengths(tokens) - 1)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        batch = self._batch(tokens)
        earlier = (tokens[:, :, None] == tokens[:, None, :]).tril(-1).long().argmax(-1)
        length = (self.question_length(tokens) - 1)[:, None].expand_as(tokens)
        example, query = batch.loss_mask.nonzero(as_tuple=True)
        key = earlier[example, query]
        hops = [torch.stack([example, torch.full_like(key, h), query, key + (h == 1)], dim=1) for h in (1, 2)]
        labels = {"length": length, "next": batch.targets, "earlier": earlier}
        return Truth(torch.cat(hops), {name: torch.where(batch.loss_mask, v, -1) for name, v in labels.items()})

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        return with_other_value(tokens, in_question(tokens, self.question_length(tokens) - 1), 0, self.q, generator)

    def parse(self, text: str) -> Batch:
        """Symbols of which the last is the first that comes again; what follows it is filled in."""
        ids = self.vocabulary.encode(text)
        if len(ids) < 4 or len(ids) - 1 > self.max_length or self.pad in ids:
            raise ValueError(f"type 3 to {self.max_length} different symbols, then one of them again, not {text!r}")
        if len(set(ids[:-1])) < len(ids) - 1 or ids[-1] not in ids[:-2]:
            raise ValueError("symbols are all different but the last, which is one of those before, but not of the end")
        return self._batch(torch.tensor([ids[:-1] + ids[ids.index(ids[-1]) : -1]]))
