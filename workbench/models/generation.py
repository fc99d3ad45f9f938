"""Generation: how a decoder goes on from what it has read, one token after the other, with a cache."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from typing import overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models.attention import Attention
from workbench.models.cache import Cache
from workbench.models.config import DecoderConfig


class Generation(nn.Module):
    """The part of a `Decoder` that decodes with a cache; it rests on `walk`, which both paths share."""

    config: DecoderConfig
    token_embedding: nn.Embedding
    unembedding: nn.Linear

    @property
    @abstractmethod
    def attention(self) -> tuple[Attention, ...]:
        """The attention variant of each layer, first layer first."""

    @abstractmethod
    def walk(
        self, tokens: Int[Tensor, "batch pos"], cache: Cache | None = None
    ) -> Iterator[tuple[str, Float[Tensor, "batch pos d_model"]]]:
        """Yield each named activation when it is computed, the final norm's last."""

    def cache(self, batch: int, n_ctx: int | None = None) -> Cache:
        """An empty cache to decode `batch` sequences of up to `n_ctx` tokens (by default the model's context)."""
        n_slots = self.config.n_ctx if n_ctx is None else n_ctx
        weight, d_head, n_kv_heads = self.token_embedding.weight, self.config.d_head, self.config.n_kv_heads
        assert d_head is not None and n_kv_heads is not None
        widths = [variant.memory_width(d_head) for variant in self.attention]
        keys = [weight.new_zeros(batch, n_kv_heads, n_slots, d_head) for _ in widths]
        memory = [weight.new_zeros(batch, self.config.n_heads, n_slots, width) for width in widths]
        return Cache(keys, memory, torch.zeros(batch, n_slots, dtype=torch.long, device=weight.device))

    @torch.no_grad()
    def extend(
        self, tokens: Int[Tensor, "batch new"], cache: Cache, lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, "batch new class"]:
        """Logits of the next tokens, whatever number of them, given a cache of those before; the cache grows by them.

        The first call reads the prompt in blocks; a call with one token costs a row of attention; one with more solves
        the new rows as a block (ChaCAL, Eq. 9). Equal to `forward` over all tokens at once. Without gradients.

        Args:
            tokens: the next tokens of every sequence.
            cache: from `cache`, or what an earlier call left.
            lengths: for prompts of different lengths, padded on the right: how many tokens of each are real. Logits
                beyond them mean nothing; the sequences then go on by one token at a time.

        Raises:
            ValueError: if the tokens do not fit the vocabulary, the cache or the lengths.
        """
        return self.unembedding(self._extend(tokens, cache, lengths))

    def _extend(self, tokens: Tensor, cache: Cache, lengths: Tensor | None = None) -> Float[Tensor, "batch new d"]:
        batch, n_new = tokens.shape
        room, n_slots = cache.keys[0].shape[0], cache.keys[0].shape[2]
        if batch != room or n_new < 1:
            raise ValueError(f"the cache is of {room} sequences and takes 1 token or more, not {batch} of {n_new}")
        if cache.longest + n_new > min(n_slots, self.config.n_ctx):
            have = f"{cache.longest} tokens and {n_new} new ones"
            raise ValueError(f"{have} do not fit the cache of {n_slots} and the context of {self.config.n_ctx}")
        if cache.at is not None and n_new > 1:
            raise ValueError(f"sequences of different lengths go on by one token at a time, not by {n_new}")
        if lengths is not None and (cache.longest or lengths.shape != (batch,) or not _within(lengths, 1, n_new)):
            raise ValueError(f"lengths are of the first tokens: {batch} integers from 1 to {n_new}")
        _, final = deque(self.walk(tokens, cache), maxlen=1).pop()
        cache.longest += n_new
        cache.length = cache.length + n_new
        if lengths is not None:
            cache.length, cache.longest = lengths.to(tokens.device), int(lengths.max())
        return final

    @overload
    def generate(self, prompts: Tensor, n_new: int) -> Tensor: ...
    @overload
    def generate(self, prompts: Sequence[Tensor], n_new: int) -> list[Tensor]: ...
    @torch.no_grad()
    def generate(self, prompts: Tensor | Sequence[Tensor], n_new: int) -> Tensor | list[Tensor]:
        """Continue each prompt greedily by `n_new` tokens, with a cache; equal to recomputing every step.

        Args:
            prompts: `[batch, pos]`, without padding; or a list of prompts `[pos]`, of any lengths, which are decoded
                together.
            n_new: how many tokens to add to each.

        Returns:
            Prompts with their continuation: `[batch, pos + n_new]`, or a list as the prompts were.

        Raises:
            ValueError: if a prompt is empty or does not fit the vocabulary, or prompt and continuation do not fit the
                context.
        """
        rows = list(prompts)
        lengths = [row.numel() for row in rows]
        if not rows or min(lengths) < 1 or n_new < 0 or any(row.ndim != 1 for row in rows):
            raise ValueError(
                f"generate needs prompts of at least one token and n_new >= 0, not lengths {lengths} and n_new={n_new}"
            )
        if max(lengths) + n_new > self.config.n_ctx:
            total = f"{max(lengths)} tokens and {n_new} new ones"
            raise ValueError(f"{total} are longer than the context of {self.config.n_ctx}")
        was_training = self.training
        self.eval()
        try:
            new = self._continue(nn.utils.rnn.pad_sequence(rows, batch_first=True), lengths, n_new)
        finally:
            self.train(was_training)
        continued = [torch.cat([row, more]) for row, more in zip(rows, new, strict=True)]
        return torch.stack(continued) if isinstance(prompts, Tensor) else continued

    def _continue(self, tokens: Tensor, lengths: Sequence[int], n_new: int) -> Int[Tensor, "batch new"]:
        """The next tokens of prompts padded on the right."""
        cache = self.cache(len(tokens), tokens.shape[1] + n_new)
        ends = torch.tensor(lengths, device=tokens.device)
        final = self._extend(tokens, cache, ends if len(set(lengths)) > 1 else None)
        final = final[torch.arange(len(tokens), device=tokens.device), ends - 1].unsqueeze(1)
        new: list[Tensor] = []
        while len(new) < n_new:
            new.append(self.unembedding(final).argmax(-1))
            if len(new) < n_new:
                final = self._extend(new[-1], cache)
        return torch.cat(new, dim=1) if new else tokens[:, :0]


def _within(numbers: Tensor, low: int, high: int) -> bool:
    return not numbers.is_floating_point() and bool(((numbers >= low) & (numbers <= high)).all())
