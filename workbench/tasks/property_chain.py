"""Property chains: pointer chains for several properties at once, which ask for as many heads."""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import with_other_value, with_two_of_a_block_exchanged
from workbench.tasks.vocabulary import Vocabulary

MOST_PROPERTIES, MOST_RECORDS = 4, 4096
LETTERS = "ABCD"


class PropertyChain(Task):
    """Records in blocks of k, each of which takes every one of its properties from a record of the block before.

    n=9, k=3, two properties, A and B:

        position   0  1  2 |  3  4  5 |  6  7  8
        token     02 10 20 | 10 02 21 | 01 20 12

    In block 0 a token holds the values of both properties, random from 0..k−1; in later blocks, for each property, the
    number of the record in the block before from which it takes that property, a shuffle of 0..k−1. Position 6 has A
    from position 3 and B from position 4. These have A from position 1 and B from position 2: position 6 has A = 1 and
    B = 0.

    At every position after block 0 the set of its values is asked: one class for each property, `A1 B0`. The best guess
    that does not follow the chain is the commonest value of block 0: right 63 % of the time for k = 3.

    An attention pattern follows one chain for each query, so that a layer needs a head for each property; the task
    stands for the entity tracking of arXiv 2605.22476, whose accuracy is said to collapse "when the number of
    simultaneously evolving properties exceeds the number of attention heads".

    Labels: `depth` (blocks after block 0; scored from 1), and for each property `parent_A` (a position) and `value_A`
    (the id of a token, `A0` …), `parent_B`, … . Arrays: `sources` `[batch, pos, property, hop]` (the position from
    which each property comes, −1 before block 0). Gold edges: hop h leads from a position to its ancestors h blocks
    before it, for all properties together.
    """

    name: ClassVar[str] = "property_chain"
    summary: ClassVar[str] = "records that take each property from another record; follow every property to its value"
    group: ClassVar[str] = "depth"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = tuple(f"value_{letter}" for letter in LETTERS)
    pair_kinds: ClassVar[dict[str, str]] = {
        "pointer": "two records of one block exchange where they take one property from",
        "value": "one property of one record of the first block is replaced",
    }

    n: int = Field(12, ge=2, le=LONGEST, description="tokens in a sequence")
    k: int = Field(3, ge=2, le=10, description="tokens in a block; divides n")
    properties: int = Field(2, ge=1, le=MOST_PROPERTIES, description="properties of a record, each with its own chain")

    @model_validator(mode="after")
    def _blocks_fit(self) -> PropertyChain:
        if self.n % self.k or self.n // self.k < 2:
            raise ValueError(f"property_chain needs n to be at least 2 whole blocks of k, not n={self.n}, k={self.k}")
        if self.k**self.properties > MOST_RECORDS:
            raise ValueError(
                f"property_chain has k^properties different records, at most {MOST_RECORDS:,}, not {self.k}^"
                f"{self.properties} = {self.k**self.properties:,}"
            )
        return self

    @property
    def letters(self) -> str:
        """The names of the properties."""
        return LETTERS[: self.properties]

    @cached_property
    def vocabulary(self) -> Vocabulary:
        numbers = [str(i) for i in range(self.k)]
        records = ["".join(each) for each in product(numbers, repeat=self.properties)]
        return Vocabulary((*records, *(letter + number for letter in self.letters for number in numbers)))

    @property
    def n_ctx(self) -> int:
        return self.n

    @property
    def bytes_each(self) -> int:
        """Memory for one sequence; each position has a set of classes."""
        return self.n * (17 + 8 * self.properties + len(self.vocabulary))

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.n // self.k))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        shape = (n, self.n // self.k, self.properties, self.k)
        numbers = torch.rand(shape, generator=generator).argsort(-1)
        numbers[:, 0] = torch.randint(self.k, numbers[:, 0].shape, generator=generator)
        return self._batch(self._records(numbers.transpose(2, 3).reshape(n, self.n, self.properties)))

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        rows, numbers = torch.arange(len(tokens)), self._numbers(tokens)
        which = torch.randint(self.properties, (len(tokens),), generator=generator)
        of_one = numbers[rows, :, which]
        if kind == "value":
            first_block = (torch.arange(tokens.shape[1]) < self.k).expand_as(tokens)
            changed = with_other_value(of_one, first_block, 0, self.k, generator)
        else:
            changed = with_two_of_a_block_exchanged(of_one, self.k, generator)
        numbers[rows, :, which] = changed
        return self._records(numbers)

    def _records(self, numbers: Int[Tensor, "*lead property"]) -> Int[Tensor, "*lead"]:
        """The ids of the records with these numbers: the first property is the first digit to base k."""
        return (numbers * self.k ** torch.arange(self.properties - 1, -1, -1)).sum(-1)

    def _numbers(self, tokens: Int[Tensor, "*lead"]) -> Int[Tensor, "*lead property"]:
        """The number of each property in a record; `_records` the other way round."""
        places = self.k ** torch.arange(self.properties - 1, -1, -1, device=tokens.device)
        return tokens.unsqueeze(-1) // places % self.k

    def ancestors(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos property hop"]:
        """For each hop h, the position h blocks earlier that a property comes from; −1 where there is no such block."""
        numbers = self._numbers(tokens)
        block = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(-1) // self.k
        parent = torch.where(block > 0, (block - 1) * self.k + numbers, -1)
        hops = [parent]
        for _ in range(self.n // self.k - 2):
            hops.append(torch.where(hops[-1] >= 0, parent.gather(1, hops[-1].clamp(min=0)), -1))
        return torch.stack(hops, dim=-1)

    def values(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos property"]:
        """The id of the token of each property's value, in block 0 too."""
        values = self._numbers(tokens)
        for start in range(self.k, tokens.shape[1], self.k):  # each block takes its values from the block before
            block = slice(start, start + self.k)
            values[:, block] = values.gather(1, start - self.k + values[:, block])
        return values + self.k**self.properties + self.k * torch.arange(self.properties, device=tokens.device)

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        scored = (torch.arange(tokens.shape[1]) >= self.k).expand_as(tokens)
        targets = torch.zeros(*tokens.shape, len(self.vocabulary), dtype=torch.bool)
        targets.scatter_(2, self.values(tokens), True)
        return Batch(tokens, targets, scored)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        ancestors, values = self.ancestors(tokens), self.values(tokens)
        example, query, which, hop = (ancestors >= 0).nonzero(as_tuple=True)
        # Each edge once, as a number: comparing rows takes many times as long.
        shape = (len(tokens), self.n // self.k, tokens.shape[1], tokens.shape[1])
        key = ancestors[example, query, which, hop]
        numbers = ((example * shape[1] + hop + 1) * shape[2] + query) * shape[3] + key
        edges = torch.stack(torch.unravel_index(numbers.unique(), shape), dim=1)
        depth = (torch.arange(tokens.shape[1], device=tokens.device) // self.k).expand_as(tokens)
        labels = {"depth": torch.where(depth > 0, depth, -1)}
        for number, letter in enumerate(self.letters):
            labels[f"parent_{letter}"] = ancestors[:, :, number, 0]
            labels[f"value_{letter}"] = torch.where(depth > 0, values[:, :, number], -1)
        return Truth(edges, labels, {"sources": ancestors})

    def parse(self, text: str) -> Batch:
        words = text.replace("|", " ").split()
        if not words or len(words) % self.k or len(words) > self.n:
            raise ValueError(
                f"a sequence is whole blocks of {self.k} records, at most {self.n} of them, not {len(words)}"
            )
        tokens = torch.tensor([self.vocabulary.encode(words)])
        if (tokens >= self.k**self.properties).any():
            raise ValueError(f"a sequence is of records such as {self.vocabulary.words[0]}, not of values")
        for start in range(self.k, len(words), self.k):
            block = tokens[:, start : start + self.k]
            for letter, numbers in zip(self.letters, self._numbers(block)[0].T.tolist(), strict=True):
                if sorted(numbers) != list(range(self.k)):
                    wanted = " ".join(map(str, range(self.k)))
                    raise ValueError(
                        f"block {start // self.k} must hold {wanted} in some order for {letter}, not {numbers}"
                    )
        return self._batch(tokens)
