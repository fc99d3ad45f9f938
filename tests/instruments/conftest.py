"""A stage for instruments: captures built by hand, so that every number can be planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject
from workbench.models.attention import ATTENTION
from workbench.tasks import Batch, Task, Truth, Vocabulary
from workbench.tasks.pointer_chain import PointerChain
from workbench.util.seeds import generator


class StageTask(Task):
    """Echo: the answer to every token is the token. Words are `w0`, `w1`, …, but for the padding."""

    name: ClassVar[str] = "stage"
    summary: ClassVar[str] = "echo"
    group: ClassVar[str] = "token"
    unit: ClassVar[Any] = "position"

    d_vocab: int
    padding: int | None = None

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(tuple("PAD" if i == self.padding else f"w{i}" for i in range(self.d_vocab)))

    @property
    def n_ctx(self) -> int:
        return 64

    @property
    def groups(self) -> tuple[int, ...]:
        return tuple(range(self.d_vocab))

    def draw(self, n: int, generator: torch.Generator, *, head: str = "main", **condition: Any) -> Batch:
        raise NotImplementedError

    def truth(self, tokens: Tensor) -> Truth:
        return Truth(labels={"token": tokens})

    def parse(self, text: str) -> Batch:
        raise NotImplementedError


@pytest.fixture
def stage() -> Callable[..., Capture]:
    """Build a capture from tokens; what is not given is drawn at random."""

    def build(
        tokens: list[list[int]] | Tensor,
        *,
        pad: int | None = None,
        n_layers: int = 2,
        n_heads: int = 2,
        d_model: int = 8,
        variant: str = "standard",
        patterns: list[Tensor] | None = None,
        truth: Truth | None = None,
        activations: dict[str, Tensor] | None = None,
    ) -> Capture:
        ids = torch.as_tensor(tokens)
        rng = generator(0, "stage")
        d_vocab = int(ids.max()) + 2 if pad is None else pad + 1
        task = StageTask(d_vocab=d_vocab, padding=pad)
        n, n_pos = ids.shape
        acts = {
            f"blocks.{layer}.{point}": torch.randn(n, n_pos, d_model, generator=rng)
            for layer in range(n_layers)
            for point in ("hook_resid_pre", "hook_resid_mid", "hook_resid_post")
        }
        for layer in range(n_layers):
            scores = torch.randn(n, n_heads, n_pos, n_pos, generator=rng)
            causal = scores.masked_fill(torch.ones(n_pos, n_pos, dtype=torch.bool).triu(1), float("-inf"))
            acts[f"blocks.{layer}.attn.hook_pattern"] = patterns[layer] if patterns else causal.softmax(-1)
        subject = Subject(
            name="stage",
            task=task,
            encoder=torch.randn(d_vocab, d_model, generator=rng),
            decoder=torch.randn(d_vocab, d_model, generator=rng),
            final_norm=lambda x: x / x.norm(dim=-1, keepdim=True),
            attention=tuple(ATTENTION[variant]() for _ in range(n_layers)),
        )
        logits = torch.randn(n, n_pos, d_vocab, generator=rng)
        batch = Batch(ids, ids, ids != (-1 if pad is None else pad))
        return Capture(acts | {LOGITS: logits} | (activations or {}), batch, subject, truth)

    return build


CHAIN = PointerChain(n=16, k=4)


@pytest.fixture
def chained(stage: Callable[..., Capture]) -> Callable[..., Capture]:
    """Pointer chains in blocks of 4, with one pattern a layer, `[batch, head, query, key]`, made from the tokens."""

    def build(*patterns: Callable[[Tensor], Tensor], variant: str = "standard", n: int = 6) -> Capture:
        tokens = CHAIN.sample(n, generator(0, "chains")).tokens
        made = [pattern(tokens) for pattern in patterns]
        capture = stage(tokens, n_layers=len(made), variant=variant, patterns=made, truth=CHAIN.truth(tokens))
        return replace(capture, subject=replace(capture.subject, task=CHAIN))

    return build


def to_ancestor(tokens: Tensor, hop: int = 1) -> Tensor:
    """One head: every position on its ancestor so many hops up, on itself where the chain has ended."""
    ancestor = CHAIN.truth(tokens).arrays["ancestors"][..., hop - 1]
    here = torch.arange(tokens.shape[1])
    return torch.nn.functional.one_hot(torch.where(ancestor < 0, here, ancestor), len(here)).double()[:, None]


@pytest.fixture
def parents() -> Callable[..., Tensor]:
    """One head that attends to each position's parent, or its ancestor `hop` hops up, and nothing else."""
    return to_ancestor


@pytest.fixture
def uniform() -> Callable[[Tensor], Tensor]:
    """Two heads that attend to all positions up to their own alike."""

    def pattern(tokens: Tensor) -> Tensor:
        n, n_pos = tokens.shape
        rows = torch.ones(n_pos, n_pos, dtype=torch.float64).tril()
        return (rows / rows.sum(-1, keepdim=True)).expand(n, 2, n_pos, n_pos)

    return pattern


def random_rows(n_pos: int, *shape: int, seed: int = 0) -> Tensor:
    """Random causal patterns, `[*shape, n_pos, n_pos]`, float64."""
    scores = torch.randn(*shape, n_pos, n_pos, generator=generator(seed, "rows"), dtype=torch.float64)
    return scores.masked_fill(torch.ones(n_pos, n_pos, dtype=torch.bool).triu(1), -torch.inf).softmax(-1)


@pytest.fixture
def random_pattern() -> Callable[..., Tensor]:
    return random_rows
