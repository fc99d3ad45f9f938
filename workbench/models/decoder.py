"""A GPT-2-shaped decoder in plain PyTorch, readable top to bottom."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import cast, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models.attention import Attention
from workbench.models.config import DecoderConfig
from workbench.models.layers import Cache, Layer
from workbench.models.norms_and_mlps import NORMS
from workbench.models.positions import POSITIONS
from workbench.util.lookup import lookup
from workbench.util.memory import check_memory
from workbench.util.vmap import under_vmap


class Decoder(nn.Module):
    """A causal decoder: embedding (and position), layers, final norm, unembedding; the shape is in `config`.

    There is no dropout of attention patterns: ChaCAL's solve is over the very pattern, and a pattern with holes is
    another graph.

    Args:
        config: the shape.
        generator: draws the initial weights, as large as the config's `initial_std`; without it PyTorch's global
            generator does.

    Raises:
        ValueError: if it is larger than this machine's memory.
    """

    def __init__(self, config: DecoderConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        check_memory(4 * config.n_parameters, f"a model of {config.n_parameters:,} parameters")
        self.config = config
        self.token_embedding = nn.Embedding(config.d_vocab, config.d_model)
        add = POSITIONS[config.positions].add  # makes what maps positions to vectors, if any are added to embeddings
        self.position_embedding = add and add(config.n_ctx, config.d_model, config.initial_std.embedding)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, config.attention_layer(i)) for i in range(config.n_layers))
        self.final_norm = NORMS[config.norm].make(config.d_model)
        self.unembedding = nn.Linear(config.d_model, config.d_vocab, bias=config.unembed_bias)
        self.extra_heads = nn.ModuleDict({name: nn.Linear(config.d_model, n) for name, n in config.heads.items()})
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                std = config.initial_std.of(name, module, config.n_layers)
                nn.init.normal_(module.weight, std=std, generator=generator)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)
        if config.tied:
            self.unembedding.weight = self.token_embedding.weight

    @overload
    def forward(self, tokens: Tensor, head: str = "main") -> Tensor: ...
    @overload
    def forward(
        self, tokens: Tensor, head: str = "main", *, keep: Sequence[str], start: Tensor | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]: ...
    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        head: str = "main",
        keep: Sequence[str] | None = None,
        start: Int[Tensor, " batch"] | None = None,
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """Logits `[batch, pos, class]`; with `keep`, also the activations of those names.

        Args:
            tokens: `[batch, pos]`, pos at most n_ctx.
            head: `main`, or one of the config's extra heads.
            keep: names of activations, as TransformerLens calls them (see `activation_names`).
            start: the position at which each sequence begins, by default 0; for positions that are added to embeddings.

        Raises:
            ValueError: if the tokens do not fit the vocabulary or the context, or a name does not exist.
        """
        unknown = set(keep or ()) - set(self.activation_names)
        if unknown:
            raise ValueError(
                f"no activation {sorted(unknown)[0]!r} to keep; there is: {', '.join(self.activation_names)}"
            )
        kept = {}
        for name, final in self.walk(tokens, start=start):
            if keep is not None and name in keep:
                kept[name] = final
        logits = lookup({"main": self.unembedding, **self.extra_heads}, head, "output head")(final)
        return logits if keep is None else (logits, kept)

    @property
    def activation_names(self) -> list[str]:
        """The names of the activations that `forward` can keep."""
        return self.config.activation_names

    def walk(
        self, tokens: Int[Tensor, "batch pos"], cache: Cache | None = None, start: Int[Tensor, " batch"] | None = None
    ) -> Iterator[tuple[str, Float[Tensor, "batch pos d_model"]]]:
        """Yield each named activation when it is computed, in order; the forward pass stops where the iteration does.

        Raises:
            ValueError: if the tokens do not fit the vocabulary or the context.
        """
        self._check(tokens)
        x = self.token_embedding(tokens)
        if self.position_embedding is not None:
            n_new = tokens.shape[1]
            at = torch.arange(n_new, device=tokens.device) if cache is None else cache.positions(n_new)
            if start is not None:  # padding may lie behind the context's end, where there is no position for it
                at = (start[:, None] + at).clamp(max=self.config.n_ctx - 1)
            x = x + self.position_embedding(at)
        x = self.dropout(x)
        lengths = self.input_lengths(tokens, cache)
        for i, layer in enumerate(cast(Iterable[Layer], self.layers)):
            yield f"blocks.{i}.hook_resid_pre", x
            x = layer.resid_mid(x, lengths[i], cache, i)
            yield f"blocks.{i}.hook_resid_mid", x
            x = layer.resid_post(x)
            yield f"blocks.{i}.hook_resid_post", x
        yield "ln_final.hook_out", self.final_norm(x)

    @property
    def attention(self) -> tuple[Attention, ...]:
        """The attention variant of each layer, first layer first."""
        return tuple(layer.attn.variant for layer in cast(Iterable[Layer], self.layers))

    def input_lengths(
        self, tokens: Int[Tensor, "batch pos"], cache: Cache | None = None
    ) -> list[Int[Tensor, "batch pos"] | None]:
        """For each layer the length of every token's input, where its variant asks for it (`Attention.input_lengths`).

        With a cache the tokens are the next ones, and are written there.
        """
        if cache is None:
            return [variant.input_lengths(tokens) for variant in self.attention]
        slots = cache.positions(tokens.shape[1]).expand_as(tokens)  # of the next tokens
        cache.tokens.scatter_(1, slots, tokens.to(cache.tokens.dtype))
        so_far = cache.tokens[:, : cache.longest + tokens.shape[1]]
        lengths = (variant.input_lengths(so_far) for variant in self.attention)
        return [None if of_all is None else of_all.gather(1, slots) for of_all in lengths]

    def _check(self, tokens: Tensor) -> None:
        if tokens.ndim != 2 or tokens.dtype not in (torch.int64, torch.int32):
            raise ValueError(
                f"tokens are integers [batch, pos] (int64 or int32), not {tokens.dtype} {list(tokens.shape)}"
            )
        if tokens.shape[1] > self.config.n_ctx:
            raise ValueError(f"input of {tokens.shape[1]} tokens is longer than the context of {self.config.n_ctx}")
        # Elsewhere than on the CPU the check would make the caller wait for the device at every step.
        unseen = torch.compiler.is_compiling() or under_vmap(tokens)
        if tokens.device.type == "cpu" and tokens.numel() and not unseen:
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= self.config.d_vocab:
                wrong = low if low < 0 else high
                raise ValueError(f"token {wrong} is outside the vocabulary 0..{self.config.d_vocab - 1}")

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
        if lengths is not None:
            fit = lengths.shape == (batch,) and not lengths.is_floating_point()
            if cache.longest or not fit or not ((lengths >= 1) & (lengths <= n_new)).all():
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
