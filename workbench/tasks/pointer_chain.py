"""Pointer chains: the toy task of the ChaCAL paper (§5.1), where every hop needs the one before it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from workbench.tasks.base import LONGEST, Task
from workbench.tasks.batch import Batch, Tokens, Truth
from workbench.tasks.pairs import with_other_value, with_two_of_a_block_exchanged
from workbench.tasks.vocabulary import Vocabulary
from workbench.util.ties import on_top


class PointerChain(Task):
    """Numbers in blocks of k: block 0 holds random values, block j the shuffled positions of block j−1.

    n=9, k=3:

        position   0 1 2 | 3 4 5 | 6 7 8
        token      7 0 4 | 2 0 1 | 5 3 4

    Position 6 holds 5, position 5 holds 1, position 1 holds 0: the chain of 6 is [5, 1], and its root's value is 0.

    There are two readings of the target at a position of depth d (d blocks after block 0; d ≥ 1 is scored):

    * `chain` (default; the paper's words): the set of the d positions on its chain. Hop 1 is the token itself. With
      the score of `correct` a model that reaches 2^L hops and guesses the rest gets 45, 65, 87, 100 % for L = 1..4 at
      n=128, k=8: the reading nearest to Table 1.
    * `root`: the value at the chain's root, one class. Depth 0 is not scored: its target would be the token itself.

    Values are uniform over 0..n−1 (the paper says only "random"): they seldom repeat, so that chance is near 1/k. The
    best guess without following the chain is the commonest value of block 0. It is right 30 % of the time at n=32, k=4
    and 17 % at n=64, k=8; with values over 0..k−1 it would be 53 % and 33 %.

    The *depth* of a position is the length of its chain; the *hop* of an ancestor is how far up the chain it is.
    Accuracy is broken down by depth for `root`, by hop for `chain`.

    Labels: `depth`, `parent` and `root_position` (positions), `root` (the root's value, a token). Arrays:
    `ancestors` `[batch, pos, hop]` (the position h hops up the chain, −1 where it has ended).
    Gold edges: hop h leads from a position to its h-th ancestor.
    """

    name: ClassVar[str] = "pointer_chain"
    summary: ClassVar[str] = "each token points to a parent in the block before; the answer is the root of its chain"
    former_groups: ClassVar[dict[str, str]] = {"depth": "hop"}
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("root",)
    group_label: ClassVar[str] = "depth"

    n: int = Field(64, ge=2, le=LONGEST, description="tokens in a sequence")
    k: int = Field(8, ge=1, description="tokens in a block; divides n")
    reading: Literal["chain", "root"] = Field("chain", description="predict the chain's positions, or its root's value")

    @model_validator(mode="after")
    def _blocks_fit(self) -> PointerChain:
        if self.n % self.k or self.n // self.k < 2:
            raise ValueError(f"pointer_chain needs n to be at least 2 whole blocks of k, not n={self.n}, k={self.k}")
        return self

    @property
    def group(self) -> str:  # type: ignore[override]  # of other tasks it does not depend on a setting
        """`depth` of the query for `root`; for `chain`, which asks for every ancestor, the `hop` of the ancestor."""
        return "depth" if self.reading == "root" else "hop"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(tuple(str(i) for i in range(self.n)))

    @property
    def n_ctx(self) -> int:
        return self.n

    @property
    def bytes_each(self) -> int:
        """Memory for one sequence; each position has all its ancestors and, in reading `chain`, a set of positions."""
        return self.n * (17 + 8 * (self.n // self.k) + self.n * (self.reading == "chain"))

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(1, self.n // self.k))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        values = torch.randint(0, self.n, (n, 1, self.k), generator=generator)
        shuffles = torch.rand(n, self.n // self.k - 1, self.k, generator=generator).argsort(-1)
        starts = torch.arange(0, self.n - self.k, self.k).unsqueeze(-1)
        return self._batch(torch.cat([values, shuffles + starts], dim=1).reshape(n, self.n))

    @property
    def pair_kinds(self) -> dict[str, str]:
        kinds = {"pointer": "two pointers of one block are exchanged: each block stays a permutation"}
        return kinds | ({"value": "one value of the first block is replaced"} if self.reading == "root" else {})

    def changed_question(self, tokens: Tokens, kind: str, generator: torch.Generator) -> Tokens:
        if kind == "value":
            first_block = (torch.arange(tokens.shape[1]) < self.k).expand_as(tokens)
            return with_other_value(tokens, first_block, 0, self.n, generator)
        return with_two_of_a_block_exchanged(tokens, self.k, generator)

    def ancestors(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos hop"]:
        """The position h hops up the chain of each position, h = 1, 2, …; −1 where the chain has ended."""
        ancestors = tokens.new_full((*tokens.shape, self.n // self.k - 1), -1)
        here = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        for hop in range(ancestors.shape[-1]):
            here = tokens.gather(1, here[:, self.k :])  # each hop leads from one block more out of the chain
            ancestors[:, (hop + 1) * self.k :, hop] = here
        return ancestors

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        scored = (torch.arange(tokens.shape[1]) >= self.k).expand_as(tokens)
        if self.reading == "root":
            root = tokens.clone()
            for start in range(self.k, tokens.shape[1], self.k):  # each block reads the roots of the block before
                block = slice(start, start + self.k)
                root[:, block] = root.gather(1, tokens[:, block])
            root[:, : self.k] = 0
            return Batch(tokens, root, scored)
        members = torch.zeros(*tokens.shape, self.n, dtype=torch.bool)
        for start in range(self.k, tokens.shape[1], self.k):  # the parent, and the ancestors of the parent
            parent = tokens[:, start : start + self.k, None]
            of_parent = members.gather(1, parent.expand(-1, -1, self.n))
            members[:, start : start + self.k] = of_parent.scatter_(2, parent, True)
        return Batch(tokens, members, scored)

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        ancestors = self.ancestors(tokens)
        example, query, hop = (ancestors >= 0).nonzero(as_tuple=True)
        edges = torch.stack([example, hop + 1, query, ancestors[example, query, hop]], dim=1)
        depth = (ancestors >= 0).sum(-1)
        scored, last = depth > 0, (depth - 1).clamp(min=0)
        root = torch.where(scored, ancestors.gather(2, last[..., None])[..., 0], -1)
        labels = {"depth": torch.where(scored, depth, -1), "parent": ancestors[..., 0], "root_position": root}
        labels["root"] = torch.where(scored, tokens.gather(1, root.clamp(min=0)), -1)
        return Truth(edges, labels, {"ancestors": ancestors})

    def accuracy_by_group(
        self, logits: Float[Tensor, "batch pos class"], batch: Batch, truth: Truth
    ) -> Float[Tensor, "batch group"]:
        """`root`: accuracy by depth. `chain`: how often the ancestor h hops up is among the top d, by h."""
        if self.reading == "root":
            return super().accuracy_by_group(logits, batch, truth)
        ancestors = self.ancestors(batch.tokens)
        hits = on_top(logits, batch.targets.sum(-1)).gather(2, ancestors.clamp(min=0))
        defined = (ancestors >= 0) & batch.loss_mask.unsqueeze(-1)
        return (hits * defined).sum(1) / defined.sum(1)

    def parse(self, text: str) -> Batch:
        words = text.replace("|", " ").split()
        if not words or len(words) % self.k or len(words) > self.n:
            raise ValueError(f"a chain is whole blocks of {self.k} numbers, at most {self.n} of them, not {len(words)}")
        tokens = torch.tensor([self.vocabulary.encode(words)])
        for start in range(self.k, len(words), self.k):
            block = tokens[0, start : start + self.k].tolist()
            before = list(range(start - self.k, start))
            if sorted(block) != before:
                wanted = " ".join(map(str, before))
                raise ValueError(f"block {start // self.k} must hold the positions {wanted} in some order, not {block}")
        return self._batch(tokens)
