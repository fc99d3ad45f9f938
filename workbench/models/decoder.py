"""A GPT-2-shaped decoder in plain PyTorch, readable top to bottom. Layers differ only in their attention variant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast, overload

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models.attention import Attention
from workbench.models.attention.base import remember
from workbench.models.cache import Cache
from workbench.models.config import DecoderConfig
from workbench.models.generation import Generation
from workbench.models.mlp import MLPS
from workbench.models.norms import NORMS
from workbench.models.positions import POSITIONS, SinusoidalPositions
from workbench.util.lookup import lookup
from workbench.util.memory import check_memory
from workbench.util.vmap import under_vmap


class MultiHeadAttention(nn.Module):
    """The linear maps around an attention variant.

    With fewer heads of keys and values than of queries, consecutive heads share them (grouped queries: Ainslie and
    others 2023, arXiv 2305.13245). The cache keeps the keys once for each group, but what the variant reads of values
    for each head: ChaCAL's solved values depend on the head's pattern.
    """

    def __init__(self, config: DecoderConfig, variant: Attention) -> None:
        super().__init__()
        assert config.d_head is not None and config.n_kv_heads is not None
        width, kv_width = config.n_heads * config.d_head, config.n_kv_heads * config.d_head
        self.d_head, self.group = config.d_head, config.n_heads // config.n_kv_heads
        self.q = nn.Linear(config.d_model, width)
        self.k = nn.Linear(config.d_model, kv_width)
        self.v = nn.Linear(config.d_model, kv_width)
        self.o = nn.Linear(width, config.d_model)
        self.variant = variant
        turn = POSITIONS[config.positions].turn
        self.rotary = None if turn is None else turn(config.d_head)

    def split(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch some_head pos d_head"]:
        return rearrange(x, "batch pos (head d_head) -> batch head pos d_head", d_head=self.d_head)

    def merge(self, z: Float[Tensor, "batch head pos d_head"]) -> Float[Tensor, "batch pos d_model"]:
        return self.o(rearrange(z, "batch head pos d_head -> batch pos (head d_head)"))

    def of_each_head(self, x: Float[Tensor, "batch kv_head pos d_head"]) -> Float[Tensor, "batch head pos d_head"]:
        """Keys or values of groups, for each head its own."""
        return x if self.group == 1 else x.repeat_interleave(self.group, dim=1)

    def forward(
        self,
        x: Float[Tensor, "batch pos d_model"],
        input_lengths: Int[Tensor, "batch pos"] | None = None,
        cache: Cache | None = None,
        layer: int = 0,
    ) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if self.rotary is not None:
            at = torch.arange(x.shape[1], device=x.device) if cache is None else cache.positions(x.shape[1])
            q, k = self.rotary(q, at), self.rotary(k, at)
        q = self.variant.scale_by_input(q, input_lengths)
        if cache is None:
            return self.merge(self.variant.mix(q, self.of_each_head(k), self.of_each_head(v)))
        read = slice(cache.longest + x.shape[1])
        keys, memory = cache.keys[layer][:, :, read], cache.memory[layer][:, :, read]
        remember(keys, k, cache.at)
        keys, v = self.of_each_head(keys), self.of_each_head(v)
        return self.merge(self.variant.extend(q, keys, v, memory, cache.at))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): the residual before, between and after is what people inspect.

    With `d_mlp=0` there is no MLP (`mlp` and `ln2` are None), and the residual after it is that before it.
    """

    def __init__(self, config: DecoderConfig, variant: Attention) -> None:
        super().__init__()
        self.ln1 = norm(config)
        self.ln2 = norm(config) if config.d_mlp else None
        self.attn = MultiHeadAttention(config, variant)
        self.mlp = MLPS[config.activation].make(config.d_model, config.d_mlp) if config.d_mlp else None
        self.dropout = nn.Dropout(config.dropout)

    def resid_mid(
        self, x: Tensor, input_lengths: Tensor | None = None, cache: Cache | None = None, layer: int = 0
    ) -> Tensor:
        return x + self.dropout(self.attn(self.ln1(x), input_lengths, cache, layer))

    def resid_post(self, mid: Tensor) -> Tensor:
        if self.mlp is None or self.ln2 is None:
            return mid
        return mid + self.dropout(self.mlp(self.ln2(mid)))


def norm(config: DecoderConfig) -> nn.Module:
    return NORMS[config.norm].make(config.d_model)


def position_embedding(config: DecoderConfig) -> nn.Embedding | SinusoidalPositions | None:
    """The module that maps positions to the vectors added to the token embeddings; None if none are added."""
    add = POSITIONS[config.positions].add
    return None if add is None else add(config.n_ctx, config.d_model, config.initial_std.embedding)


class Decoder(Generation):
    """A causal decoder: embedding (and position), layers, final norm, unembedding; the shape is in `config`.

    How it goes on from what it has read, with a cache, is in `Generation`.

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
        self.position_embedding = position_embedding(config)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config, config.attention_layer(i)) for i in range(config.n_layers))
        self.final_norm = norm(config)
        self.unembedding = nn.Linear(config.d_model, config.d_vocab, bias=config.unembed_bias)
        self.extra_heads = nn.ModuleDict({name: nn.Linear(config.d_model, n) for name, n in config.heads.items()})
        self._initialise(generator)
        if config.tied:
            self.unembedding.weight = self.token_embedding.weight

    def _initialise(self, generator: torch.Generator | None) -> None:
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                std = self.config.initial_std.of(name, module, self.config.n_layers)
                nn.init.normal_(module.weight, std=std, generator=generator)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)

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
        logits = self._head(head)(final)
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
        so_far = cache.write_tokens(tokens)
        lengths = (variant.input_lengths(so_far) for variant in self.attention)
        return [None if of_all is None else cache.newest(of_all, tokens.shape[1]) for of_all in lengths]

    def _head(self, name: str) -> nn.Module:
        return lookup({"main": self.unembedding, **self.extra_heads}, name, "output head")

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
