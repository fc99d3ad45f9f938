"""A stage for instruments: captures built by hand, so that every number can be planted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from workbench.capture import LOGITS, Capture, Subject
from workbench.models.attention import ATTENTION
from workbench.seeds import generator
from workbench.tasks import Batch, Task, Truth, Vocabulary


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
