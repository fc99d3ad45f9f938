"""The cache of a decoder that generates: what it keeps of the tokens it has read."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor


@dataclass
class Cache:
    """Keys and values of the tokens read so far, so that each further token costs one row of attention.

    Position i of a sequence is always in slot i, so the causal mask alone hides what other sequences have in their
    slots when prompts differ in length.

    Attributes:
        keys: each layer's keys, `[batch, kv_head, slot, d_head]`: with grouped queries, once for each group.
        memory: what each layer's variant reads instead of values, `[batch, head, slot, d_memory]`.
        tokens: what was read, `[batch, slot]`.
        length: tokens read; a tensor `[batch]` where that differs between sequences.
        longest: the largest of them.
    """

    keys: list[Float[Tensor, "batch kv_head slot d_head"]]
    memory: list[Float[Tensor, "batch head slot d_memory"]]
    tokens: Int[Tensor, "batch slot"]
    length: int | Int[Tensor, " batch"] = 0
    longest: int = 0

    @property
    def at(self) -> Int[Tensor, " batch"] | None:
        """The slot of each sequence's next token; None where it is the same for all."""
        return None if isinstance(self.length, int) else self.length

    def positions(self, n_new: int) -> Int[Tensor, "*batch new"]:
        """The next tokens' positions."""
        if isinstance(self.length, int):
            return torch.arange(self.length, self.length + n_new, device=self.keys[0].device)
        return self.length.unsqueeze(-1)

    def write_tokens(self, new: Int[Tensor, "batch new"]) -> Int[Tensor, "batch slot"]:
        """Write the next tokens into their slots; returns the slots of all tokens so far."""
        self.tokens.scatter_(1, self.positions(new.shape[1]).expand_as(new), new.to(self.tokens.dtype))
        return self.tokens[:, : self.longest + new.shape[1]]

    def newest(self, of_slots: Shaped[Tensor, "batch slot"], n_new: int) -> Shaped[Tensor, "batch new"]:
        """The entries of the next tokens' slots."""
        return of_slots.gather(1, self.positions(n_new).expand(len(of_slots), -1))
