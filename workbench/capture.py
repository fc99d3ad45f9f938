"""From a hooked model and batches to `Capture`s: only the activations asked for, one batch in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.models import Decoder
from workbench.models.attention import Attention
from workbench.tasks import Batch, Task, Truth

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


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

    @classmethod
    def of(cls, model: Decoder, task: Task, name: str) -> Subject:
        """The facts of a decoder (not of its hooked copy)."""
        return cls(
            name=name,
            task=task,
            encoder=model.token_embedding.weight.detach(),
            decoder=model.unembedding.weight.detach(),
            final_norm=model.final_norm,
            attention=tuple(module for module in model.modules() if isinstance(module, Attention)),
        )

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


@torch.no_grad()
def capture(hooked: TransformerBridge, subject: Subject, batch: Batch, names: Iterable[str]) -> Capture:
    """Run one batch and keep the named activations.

    Args:
        hooked: the hooked model.
        subject: the same model's facts.
        batch: its input.
        names: TransformerLens hook names; nothing else is kept.

    Raises:
        ValueError: if a name is not one of the model's hook points.
    """
    names = sorted(set(names))
    for name in names:
        if name not in hooked.hook_dict:
            raise ValueError(
                f"the model has no hook point {name!r}; its layers are blocks.0 to blocks.{subject.n_layers - 1}"
            )
    logits, cache = hooked.run_with_cache(batch.tokens, names_filter=names)
    return Capture({name: cache[name] for name in names}, logits, batch, subject.task.truth(batch.tokens), subject)
