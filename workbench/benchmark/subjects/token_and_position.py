"""A subject whose label the token and its position decide: nothing is brought from elsewhere."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Int
from pydantic import Field
from torch import Tensor

from workbench.benchmark.subjects.planted import Effect, Planted, PlantedTruth, blank, held
from workbench.tasks import Batch, Task, Truth, Vocabulary
from workbench.tasks.pairs import with_other_value


class Turned(Task):
    """At every position the token turned on by its position is asked for: (token + position) mod p.

    p=5: `3 0 4 1` asks for `3 1 1 4`. Labels: `turned`, the answer, and `sum`, of all numbers, modulo p.
    """

    name: ClassVar[str] = "turned"
    summary: ClassVar[str] = "numbers; say each plus its position, modulo p"
    group: ClassVar[str] = "turned"
    unit: ClassVar[Literal["position"]] = "position"
    token_labels: ClassVar[tuple[str, ...]] = ("turned", "sum")

    p: int = Field(7, ge=2, le=64, description="the modulus, and the number of symbols")
    length: int = Field(8, ge=2, le=64, description="numbers in a sequence")

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(tuple(map(str, range(self.p))))

    @property
    def n_ctx(self) -> int:
        return self.length

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.p))

    @property
    def pair_kinds(self) -> dict[str, str]:
        return {"symbol": "one number is replaced"}

    def changed_question(
        self, tokens: Int[Tensor, "batch pos"], kind: str, generator: torch.Generator
    ) -> Int[Tensor, "batch pos"]:
        return with_other_value(tokens, torch.ones_like(tokens, dtype=torch.bool), 0, self.p, generator)

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        self.refuse(condition)
        return self._batch(torch.randint(0, self.p, (n, self.length), generator=generator))

    def _batch(self, tokens: Int[Tensor, "batch pos"]) -> Batch:
        return Batch(tokens, self.truth(tokens).labels["turned"], torch.ones_like(tokens, dtype=torch.bool))

    def truth(self, tokens: Int[Tensor, "batch pos"]) -> Truth:
        turned, total = tokens + torch.arange(tokens.shape[1]), tokens.sum(-1, keepdim=True).expand_as(tokens)
        return Truth(labels={"turned": turned % self.p, "sum": total % self.p})

    def parse(self, text: str) -> Batch:
        tokens = self.vocabulary.encode(text)
        if len(tokens) != self.length:
            raise ValueError(f"a question is {self.length} numbers below {self.p}, not {text!r}")
        return self._batch(torch.tensor([tokens]))


def turned_token(seed: int | None) -> Planted:
    """The MLP looks up each pair of token and position. A probe decodes the label perfectly, and no head does a thing.

    A baseline to which token and position are given as two things, and not as a pair, is far below the probe.
    """
    task = Turned()
    rooms, d_mlp = [task.p, task.n_ctx, task.p], task.p * task.n_ctx
    write, (token, position, out) = blank(task, rooms, seed, n_heads=1, d_head=1, d_mlp=d_mlp)
    value, at = torch.meshgrid(torch.arange(task.p), torch.arange(task.n_ctx), indexing="ij")
    pairs = (token[value] + position[at]).flatten(0, 1)
    write.mlp(0, reads=pairs, threshold=1.0, writes=out[((value + at) % task.p).flatten()])
    labels = held("turned", ["blocks.0.hook_resid_post"], out, local=True)
    edges = dict.fromkeys(("input->m0", "m0->logits"), Effect.ANSWER)
    truth = PlantedTruth(edges=edges, needed=(("m0",),), labels=labels)
    return Planted("turned_token", write.model, task, truth, seed)
