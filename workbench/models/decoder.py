"""A GPT-2-shaped decoder in plain PyTorch, readable top to bottom. Layers differ only in their attention variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.lookup import lookup
from workbench.models.attention import Attention
from workbench.models.config import DecoderConfig


@dataclass
class Cache:
    """What one attention layer keeps while decoding: its keys, and what its variant reads instead of the values."""

    keys: Float[Tensor, "batch head pos d_head"] | None = None
    memory: Float[Tensor, "batch head pos d_memory"] | None = None


class MultiHeadAttention(nn.Module):
    """The linear maps around an attention variant."""

    def __init__(self, config: DecoderConfig, variant: Attention) -> None:
        super().__init__()
        assert config.d_head is not None
        self.n_heads, width = config.n_heads, config.n_heads * config.d_head
        self.q = nn.Linear(config.d_model, width)
        self.k = nn.Linear(config.d_model, width)
        self.v = nn.Linear(config.d_model, width)
        self.o = nn.Linear(width, config.d_model)
        self.variant = variant

    def split(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch head pos d_head"]:
        return rearrange(x, "batch pos (head d_head) -> batch head pos d_head", head=self.n_heads)

    def merge(self, z: Float[Tensor, "batch head pos d_head"]) -> Float[Tensor, "batch pos d_model"]:
        return self.o(rearrange(z, "batch head pos d_head -> batch pos (head d_head)"))

    def forward(
        self, x: Float[Tensor, "batch pos d_model"], cache: Cache | None = None
    ) -> Float[Tensor, "batch pos d_model"]:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if cache is None:
            return self.merge(self.variant.mix(q, k, v))
        cache.keys = k if cache.keys is None else torch.cat([cache.keys, k], dim=-2)
        z, cache.memory = self.variant.extend(self.variant.pattern(q, cache.keys), v, cache.memory)
        return self.merge(z)


class MLP(nn.Module):
    """Two linear maps with a nonlinearity between them."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        assert config.d_mlp is not None
        self.fc_in = nn.Linear(config.d_model, config.d_mlp)
        self.fc_out = nn.Linear(config.d_mlp, config.d_model)
        self.activation = nn.GELU() if config.activation == "gelu" else nn.ReLU()

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        return self.fc_out(self.activation(self.fc_in(x)))


class Layer(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): the residual before, between and after is what people inspect."""

    def __init__(self, config: DecoderConfig, variant: Attention) -> None:
        super().__init__()
        self.ln1, self.ln2 = norm(config), norm(config)
        self.attn = MultiHeadAttention(config, variant)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, cache: Cache | None = None) -> tuple[Tensor, Tensor]:
        mid = x + self.dropout(self.attn(self.ln1(x), cache))
        return mid, mid + self.dropout(self.mlp(self.ln2(mid)))


def norm(config: DecoderConfig) -> nn.Module:
    return nn.LayerNorm(config.d_model) if config.norm == "layernorm" else nn.Identity()


class Decoder(nn.Module):
    """A causal decoder: embedding (and position), layers, final norm, unembedding; the shape is in `config`.

    There is no dropout of attention patterns: ChaCAL's solve is over the very pattern, and a pattern with holes is
    another graph.

    Args:
        config: the shape.
        generator: draws the initial weights (GPT-2's: normal with 0.02, smaller for what writes to the residual);
            without it PyTorch's global generator does.
    """

    def __init__(self, config: DecoderConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.d_vocab, config.d_model)
        self.position_embedding = nn.Embedding(config.n_ctx, config.d_model) if config.positions == "learned" else None
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
                writes_residual = name.endswith(("attn.o", "mlp.fc_out"))
                std = 0.02 / (2 * self.config.n_layers) ** 0.5 if writes_residual else 0.02
                nn.init.normal_(module.weight, std=std, generator=generator)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)

    @overload
    def forward(self, tokens: Tensor, head: str = "main") -> Tensor: ...
    @overload
    def forward(
        self, tokens: Tensor, head: str = "main", *, keep: Sequence[str]
    ) -> tuple[Tensor, dict[str, Tensor]]: ...
    def forward(
        self, tokens: Int[Tensor, "batch pos"], head: str = "main", keep: Sequence[str] | None = None
    ) -> Tensor | tuple[Tensor, dict[str, Tensor]]:
        """Logits `[batch, pos, class]`; with `keep`, also the activations of those names.

        Args:
            tokens: `[batch, pos]`, pos at most n_ctx.
            head: `main`, or one of the config's extra heads.
            keep: names of activations, as TransformerLens calls them (see `activation_names`).

        Raises:
            ValueError: if the tokens do not fit the vocabulary or the context, or a name does not exist.
        """
        self._check(tokens)
        unknown = set(keep or ()) - set(self.activation_names)
        if unknown:
            raise ValueError(
                f"no activation {sorted(unknown)[0]!r} to keep; there is: {', '.join(self.activation_names)}"
            )
        final, activations = self._residuals(tokens)
        logits = self._head(head)(final)
        return logits if keep is None else (logits, {name: activations[name] for name in keep})

    @property
    def activation_names(self) -> list[str]:
        """What `forward` can keep."""
        points = ("resid_pre", "resid_mid", "resid_post")
        layers = [f"blocks.{i}.hook_{point}" for i in range(self.config.n_layers) for point in points]
        return [*layers, "ln_final.hook_out"]

    def _residuals(self, tokens: Tensor, caches: Sequence[Cache] | None = None) -> tuple[Tensor, dict[str, Tensor]]:
        x = self.token_embedding(tokens)
        if self.position_embedding is not None:
            past = 0 if caches is None or caches[0].keys is None else caches[0].keys.shape[-2]
            x = x + self.position_embedding.weight[past : past + tokens.shape[1]]
        x = self.dropout(x)
        activations = {}
        for i, layer in enumerate(self.layers):
            activations[f"blocks.{i}.hook_resid_pre"] = x
            mid, x = layer(x, None if caches is None else caches[i])
            activations[f"blocks.{i}.hook_resid_mid"], activations[f"blocks.{i}.hook_resid_post"] = mid, x
        activations["ln_final.hook_out"] = final = self.final_norm(x)
        return final, activations

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
        if tokens.device.type == "cpu" and tokens.numel() and not torch.compiler.is_compiling():
            low, high = int(tokens.min()), int(tokens.max())
            if low < 0 or high >= self.config.d_vocab:
                wrong = low if low < 0 else high
                raise ValueError(f"token {wrong} is outside the vocabulary 0..{self.config.d_vocab - 1}")

    @torch.no_grad()
    def generate(self, tokens: Int[Tensor, "batch pos"], n_new: int) -> Int[Tensor, "batch pos_and_new"]:
        """Continue each prompt greedily by `n_new` tokens, with a cache; equal to recomputing every step.

        Args:
            tokens: prompts of one length, without padding.
            n_new: how many tokens to add.

        Raises:
            ValueError: if a prompt is empty or does not fit the vocabulary, or prompt and continuation do not fit the
                context.
        """
        self._check(tokens)
        if tokens.shape[1] == 0 or n_new < 0:
            raise ValueError(f"generate needs a prompt and n_new >= 0, not {tokens.shape[1]} tokens and n_new={n_new}")
        if tokens.shape[1] + n_new > self.config.n_ctx:
            total = f"{tokens.shape[1]} tokens and {n_new} new ones"
            raise ValueError(f"{total} are longer than the context of {self.config.n_ctx}")
        was_training = self.training
        self.eval()
        caches = [Cache() for _ in self.layers]
        new = tokens
        for _ in range(n_new):
            final, _ = self._residuals(new, caches)
            new = self.unembedding(final[:, -1:]).argmax(-1)
            tokens = torch.cat([tokens, new], dim=1)
        self.train(was_training)
        return tokens
