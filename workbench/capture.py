"""From a hooked model and batches to `Capture`s: only the activations asked for, one batch in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.tasks.base import Batch, Task, Truth

if TYPE_CHECKING:
    from workbench.models.attention.base import Attention


@dataclass(frozen=True)
class Subject:
    """The facts of a model that instruments need beside its activations.

    Attributes:
        name: what to call the model in captions (the run's folder name).
        task: what it was trained on.
        encoder: `[d_vocab, d_model]`, rows of the embedding: the encoder basis.
        decoder: `[d_vocab, d_model]`, columns of the unembedding: the decoder basis.
        final_norm: the norm before the unembedding, or the identity.
        attention: the attention variant of each layer; `read(pattern, v)` says what a layer does with a pattern.
    """

    name: str
    task: Task
    encoder: Float[Tensor, "d_vocab d_model"]
    decoder: Float[Tensor, "d_vocab d_model"]
    final_norm: Callable[[Tensor], Tensor]
    attention: tuple[Attention, ...]

    @property
    def n_layers(self) -> int:
        return len(self.attention)


@dataclass(frozen=True)
class Capture:
    """Named activations of one batch, with the batch, its truth and the model they came from.

    Attributes:
        activations: TransformerLens hook name -> tensor; residuals `[batch, pos, d_model]`
            (`blocks.0.hook_resid_mid`), patterns `[batch, head, query, key]` (`blocks.0.attn.hook_pattern`).
        logits: `[batch, pos, class]`.
    """

    activations: Mapping[str, Tensor]
    logits: Float[Tensor, "batch pos class"]
    batch: Batch
    truth: Truth
    subject: Subject

    def __getitem__(self, name: str) -> Tensor:
        if name not in self.activations:
            raise ValueError(f"{name!r} was not captured; there is: {', '.join(self.activations) or 'nothing'}")
        return self.activations[name]
