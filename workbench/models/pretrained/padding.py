"""Padded sequences, which Transformers describes by a mask, as sequences that all begin at their first position."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """Which keys of each sequence are tokens, and the order of keys in which those come first.

    Attention knows where a key is only by the causal mask: queries and keys have their positions in them already. So
    the tokens may be moved to the front, where padding comes after all of them and a causal variant needs no mask.

    Attributes:
        real: whether a key is a token.
        order: for each packed place, the key that is there.
        place: for each key, its packed place.
    """

    real: Bool[Tensor, "batch key"]
    order: Int[Tensor, "batch key"]
    place: Int[Tensor, "batch key"]

    @classmethod
    def of(cls, real: Bool[Tensor, "batch key"]) -> Packing:
        """The packing that brings the real keys of each sequence to the front, in their order."""
        order = (~real).to(torch.uint8).argsort(dim=-1, stable=True)
        return cls(real, order, order.argsort(dim=-1))

    def until(self, end: int) -> Packing:
        """The packing of the keys before `end`."""
        return self if end == self.real.shape[1] else Packing.of(self.real[:, :end])

    def pack(self, x: Float[Tensor, "batch head key d"]) -> Float[Tensor, "batch head key d"]:
        """Rows of keys, tokens first."""
        return x.take_along_dim(self.order[:, None, :, None], dim=2)

    def unpack(self, x: Float[Tensor, "batch head key d"]) -> Float[Tensor, "batch head key d"]:
        """Packed rows where they were."""
        return x.take_along_dim(self.place[:, None, :, None], dim=2)


def packing(mask: Tensor | None, n_batch: int, n_query: int, n_key: int) -> Packing | None:
    """What a mask says of padding; None where there is none.

    Args:
        mask: `[batch, 1, query, key]`, true where a query may read a key; None for a causal mask and no padding.
        n_batch: number of sequences.
        n_query: number of queries: those of the last keys.
        n_key: number of keys.

    Raises:
        ValueError: if the mask hides anything but padding and keys after their query, or shows such keys.
    """
    if mask is None:
        if 1 < n_query < n_key:
            raise ValueError(
                f"{n_query} queries over a cache of {n_key} slots that are not all filled: this library's attention "
                "variants need a cache that grows, Transformers' DynamicCache, not a StaticCache"
            )
        return None
    if mask.dtype != torch.bool or mask.ndim != 4 or mask.shape[1] != 1 or mask.shape[-1] != n_key:
        raise ValueError(
            f"this library's attention variants take a true-or-false mask [batch, 1, query, {n_key}], not "
            f"{mask.dtype} {list(mask.shape)}; give attention_mask as [batch, pos], 1 for a token and 0 for padding"
        )
    allowed = mask[:, 0].expand(n_batch, -1, -1)
    real = allowed[:, -1]
    keys = torch.arange(n_key, device=mask.device)
    causal = keys <= keys[n_key - n_query :, None]
    if not torch.equal(allowed, causal & real.unsqueeze(1)):
        raise ValueError(
            "this library's attention variants read every earlier token of a sequence: a mask may hide padding and "
            "what comes later, and nothing else (no sliding window, packed sequences, or prefix read both ways)"
        )
    return None if real.all() else Packing.of(real)
