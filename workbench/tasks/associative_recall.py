"""Multi-query associative recall: keys with values, then some of the keys again, whose values are asked (Zoology)."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import with_other_value
from workbench.tasks.vocabulary import Vocabulary


class AssociativeRecall(Task):
    """Key-value pairs, then every key once more among other tokens; at each key behind the pairs its value is asked.

    d_vocab=12, length=16, pairs=2, fill="blank":

        position   0  1  2  3 | 4  5  6  7  8  9 10 11 12 13 14 15
        token     k2 v8 k4 v7 | .  . k4  .  .  .  .  . k2  .  .  .
        target                |      v7                v8

    The distribution is that of multi-query associative recall in "Zoology" (Arora et al., 2023, arXiv 2312.04927) with
    one
    pass: keys are drawn from 1 … d_vocab/2 − 1 and values from d_vocab/2 … d_vocab − 1, none twice; the queries
    stand at even places behind the pairs, drawn without replacement with probabilities ∝ i^(power − 1), one for each
    key; everything else is a token drawn uniformly from the whole vocabulary, or with `fill="blank"` token 0. One thing
    is other: a token of that filling which happens to be one of the keys is asked like a query, since its answer is as
    well defined (there it is not scored); the inputs are the same.

    Labels, where scored: `pair` (the number of the key's pair, from 0), `value` (the answer, a token). Gold edges: hop
    1 leads from a query to its value behind the key, hop 2 to the key.
    """

    name: ClassVar[str] = "associative_recall"
    summary: ClassVar[str] = "keys with values; the value of a key is asked wherever the key comes again"
    group: ClassVar[str] = "pair"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("value",)
    pair_kinds: ClassVar[dict[str, str]] = {"value": "the value of one key is replaced by another"}

    d_vocab: int = Field(64, ge=8, le=LONGEST, description="tokens: the blank, then keys, then values")
    length: int = Field(32, ge=8, le=LONGEST, description="tokens in a sequence, an even number")
    pairs: int = Field(4, ge=1, description="key-value pairs; the sequence has 4 tokens for each at least")
    power: float = Field(0.01, gt=0, description="of the power law of gaps; 1 is uniform")
    fill: Literal["random", "blank"] = Field("random", description="what stands between the queries")

    @model_validator(mode="after")
    def _pairs_fit(self) -> AssociativeRecall:
        if self.length % 2 or self.d_vocab % 2:
            raise ValueError(f"associative_recall needs even length and d_vocab, not {self.length} and {self.d_vocab}")
        if 4 * self.pairs > self.length:
            raise ValueError(f"{self.pairs} pairs and their queries take {4 * self.pairs} tokens, not {self.length}")
        if self.pairs > self.d_vocab // 2 - 1:
            raise ValueError(f"d_vocab={self.d_vocab} has {self.d_vocab // 2 - 1} keys, fewer than pairs={self.pairs}")
        return self

    @property
    def first_value(self) -> int:
        """The smallest token that is a value."""
        return self.d_vocab // 2

    @cached_property
    def vocabulary(self) -> Vocabulary:
        letters = ["." if i == 0 else f"{'k' if i < self.first_value else 'v'}{i}" for i in range(self.d_vocab)]
        return Vocabulary(tuple(letters))

    @property
    def n_ctx(self) -> int:
        return self.length

    @property
    def bytes_each(self) -> int:
        return 17 * self.length + 8 * self.d_vocab

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.pairs))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        n_values, context = self.d_vocab - self.first_value, 2 * self.pairs
        keys = _without_replacement(torch.ones(self.first_value - 1), n, self.pairs, generator) + 1
        values = _without_replacement(torch.ones(n_values), n, self.pairs, generator) + self.first_value
        tokens = torch.zeros(n, self.length, dtype=torch.long)
        if self.fill == "random":
            tokens = torch.randint(0, self.d_vocab, (n, self.length), generator=generator)
        tokens[:, 0:context:2], tokens[:, 1:context:2] = keys, values
        space = (self.length - context) // 2
        gaps = _without_replacement(torch.arange(1, space + 1.0) ** (self.power - 1), n, self.pairs, generator)
        return self._batch(tokens.scatter(1, context + 2 * gaps, keys))

    def _found(self, tokens: Int[Tensor, "batch pos"]) -> tuple[Bool[Tensor, "batch pos"], Int[Tensor, "batch pos"]]:
        """Where a key comes behind the pairs, and the number of its pair."""
        same = tokens[:, :, None] == tokens[:, None, 0 : 2 * self.pairs : 2]
        behind = torch.arange(tokens.shape[1], device=tokens.device) >= 2 * self.pairs
        return same.any(-1) & behind, same.long().argmax(-1)

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        asked, pair = self._found(tokens)
        return Batch(tokens, torch.where(asked, tokens.gather(1, 2 * pair + 1), 0), asked)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        asked, pair = self._found(tokens)
        example, query = asked.nonzero(as_tuple=True)
        key = 2 * pair[example, query]
        hops = [torch.stack([example, torch.full_like(key, h), query, key + (h == 1)], dim=1) for h in (1, 2)]
        value = tokens.gather(1, 2 * pair + 1)
        return Truth(
            torch.cat(hops), {name: torch.where(asked, label, -1) for name, label in (("pair", pair), ("value", value))}
        )

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        position = torch.arange(tokens.shape[1])
        values = ((position < 2 * self.pairs) & (position % 2 == 1)).expand_as(tokens)
        return with_other_value(tokens, values, self.first_value, self.d_vocab, generator)

    def parse(self, text: str) -> Batch:
        tokens = torch.tensor([self.vocabulary.encode(text)], dtype=torch.long)
        if tokens.shape[1] != self.length:
            raise ValueError(f"a sequence has {self.length} tokens, {self.pairs} pairs first, not {tokens.shape[1]}")
        keys, values = tokens[0, 0 : 2 * self.pairs : 2], tokens[0, 1 : 2 * self.pairs : 2]
        wrong = ((keys < 1) | (keys >= self.first_value) | (values < self.first_value)).any()
        if wrong or len(keys.unique()) < len(keys):
            raise ValueError(
                f"it begins with {self.pairs} pairs of a key (k1 … k{self.first_value - 1}, each once) and a value "
                f"(v{self.first_value} … v{self.d_vocab - 1})"
            )
        batch = self._batch(tokens)
        if not batch.loss_mask.any():
            raise ValueError("none of the keys comes again behind the pairs, so nothing is asked")
        return batch


def _without_replacement(weights: Tensor, n: int, k: int, generator: torch.Generator) -> Int[Tensor, "n k"]:
    """Draw k of the places 0, 1, … for each of n rows, one after the other by their weights, none twice.

    The k largest of log weights with Gumbel noise are such a draw, in that order (Efraimidis & Spirakis, 2006).
    """
    uniform = torch.rand(n, len(weights), generator=generator, dtype=torch.float64).clamp(min=1e-300)
    return (weights.double().log() - (-uniform.log()).log()).topk(k, dim=-1).indices
