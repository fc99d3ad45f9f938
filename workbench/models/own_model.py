"""A model of one's own: any PyTorch module, with a note of where its parts are, to be inspected like a decoder.

    MODELS = {"llama": ModuleKind(build, Parts(embed="tok_embeddings", blocks="layers", attn="attention",
                                               mlp="feed_forward", final_norm="norm", unembed="output"))}

The module knows nothing of this library. It need only be a stack of blocks that add to a residual: what its attention
writes, then what its MLP writes. Its activations then have TransformerLens's names (see `own_model_hooks`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models import facts
from workbench.models.attention import Attention
from workbench.models.own_model_config import MODELS, OwnModelConfig, Parts
from workbench.tasks.known_text import KnownText
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.own_model_hooks import HookedModule


class SeenPattern(Attention):
    """The attention of a module of one's own: its pattern is seen, not computed here, and read as `pattern @ v`."""

    name = "own"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Float[Tensor, "batch head query key"]:
        raise NotImplementedError("the pattern of a module of one's own is captured, not computed from q and k")


class OwnModel(nn.Module):
    """A module of one's own, as it is now, under the names that the rest of the library knows of a decoder.

    Args:
        module: the module, of which a copy is kept, so that it can go on training: int64 tokens `[batch, pos]` to
            logits `[batch, pos, d_vocab]`, or to a tuple of which they are the first, or to an object with `.logits`.
        parts: where its parts are.
        n_ctx: the longest sequence that it takes, in tokens.
        name: of its kind.
        settings: what its kind builds it from.
        build: makes the module with fresh weights from a generator, for the control `untrained`; None if nothing can.

    Raises:
        ValueError: if a part is not where it is said to be, a weight is no finite number, the blocks do not add to a
            residual, or the module cannot be run on sequences up to `n_ctx`.
    """

    known_text: KnownText | None = None
    """What is known of the text that it was trained on."""

    def __init__(
        self,
        module: nn.Module,
        parts: Parts,
        n_ctx: int,
        *,
        name: str = "own model",
        settings: dict[str, Any] | None = None,
        build: Callable[[torch.Generator], nn.Module] | None = None,
    ) -> None:
        from workbench.models.own_model_checks import check_parts, in_one_line

        super().__init__()
        if n_ctx < 1:
            raise ValueError(f"n_ctx is the length of the longest sequence, 1 token or more, not {n_ctx}")
        self.module, self.parts, self.build, self.facts = copy.deepcopy(module), parts, build, facts.Facts(1)
        self.eval()
        facts.check_numbers(self.module)
        vocabulary = self.token_embedding.weight
        self._check_shapes()
        self.config = OwnModelConfig(
            n_layers=len(self.blocks),
            d_model=vocabulary.shape[1],
            n_heads=1,  # known once it was run
            d_vocab=vocabulary.shape[0],
            n_ctx=n_ctx,
            module=name,
            settings=settings or {},
            n_weights=sum(parameter.numel() for parameter in module.parameters()),
        )
        tokens = facts.probe_tokens(len(vocabulary), n_ctx, vocabulary.device)
        with in_one_line(f"{name} cannot be run with hooks"):
            self.facts = seen = check_parts(self.hooked(), self, tokens)
            has_pattern = seen.no_pattern is None
            self.config = replace(
                self.config, n_heads=seen.n_heads, d_head=None, pattern=has_pattern, parallel=seen.parallel
            )
            self.facts = self._learnt(tokens)

    @classmethod
    def of_kind(cls, kind: str, settings: dict[str, Any], n_ctx: int, module: nn.Module | None = None) -> OwnModel:
        """A model of a kind in `MODELS`: a module that is there already, or by default one with fresh weights."""
        made = MODELS[kind]

        def build(draws: torch.Generator) -> nn.Module:
            return made.fresh(settings, draws)

        module = build(generator(0, "own model")) if module is None else module
        return cls(module, made.parts, n_ctx, name=kind, settings=settings, build=build)

    def _check_shapes(self) -> None:
        """Raise ValueError if the blocks are no list, or the unembedding does not fit the embedding."""
        if not isinstance(self.blocks, nn.ModuleList | nn.Sequential):
            raise ValueError(f"{self.parts.blocks} is not a list of blocks, but {type(self.blocks).__name__}")
        embed, unembed = (list(part.weight.shape) for part in (self.token_embedding, self.unembedding))
        if unembed != embed:
            raise ValueError(
                f"{self.parts.unembed} is no unembedding of {self.parts.embed}: its weight is {unembed}, not {embed}"
            )

    @property
    def can_be_fresh(self) -> bool:
        """Whether something builds it with fresh weights."""
        return self.build is not None

    def fresh(self, draws: torch.Generator) -> OwnModel:
        """The same model with fresh weights.

        Raises:
            ValueError: if nothing builds one.
        """
        module = self.fresh_module(draws).to(self.token_embedding.weight)
        settings, name = self.config.settings, self.config.module
        return OwnModel(module, self.parts, self.config.n_ctx, name=name, settings=settings, build=self.build)

    def fresh_module(self, draws: torch.Generator | None = None) -> nn.Module:
        """The module alone with fresh weights. Raises ValueError if nothing builds one."""
        if self.build is None:
            raise ValueError(f"there is nothing that builds {self.config.module} with fresh weights")
        return self.build(generator(0, "own model") if draws is None else draws)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos class"]:
        """Logits of every position."""
        return facts.logits_of(self.module(tokens))

    def hooked(self) -> HookedModule:
        """A hooked copy."""
        from workbench.models.own_model_hooks import HookedModule

        hooked = HookedModule(copy.deepcopy(self.module), self.parts, self.config)
        for name in self.facts.silent:  # a hook there would be called never, and say nothing of it
            del hooked.hook_dict[name], hooked.mod_dict[name]
        facts.let_watch_only(hooked, self.facts.watched_only)
        return hooked

    def _learnt(self, tokens: Int[Tensor, "batch pos"]) -> facts.Facts:
        """The facts with what edits reach and how logits are made, which running the hooked model tells."""
        hooked, tokens = self.hooked(), tokens[:1, : facts.FEW]
        transform = facts.logit_transform(hooked, tokens)
        if transform is None:
            why: str | None = "what it does to the logits of its unembedding is no scale and no soft cap"
        else:
            why = facts.why_not_decoded(hooked, tokens, self.final_norm, self.unembedding, transform)
        unread = facts.watched_only(hooked, tokens)
        return replace(self.facts, logits=transform or facts.LogitTransform(), no_decoding=why, watched_only=unread)

    @property
    def blocks(self) -> nn.ModuleList:
        return self.parts.of(self.module, "blocks")

    @property
    def token_embedding(self) -> nn.Embedding:
        return self.parts.of(self.module, "embed")

    @property
    def unembedding(self) -> nn.Linear:
        return self.parts.of(self.module, "unembed")

    @property
    def final_norm(self) -> nn.Module:
        return self.parts.of(self.module, "final_norm")

    @cached_property
    def attention(self) -> tuple[Attention, ...]:
        """What each layer does with its pattern."""
        return tuple(SeenPattern() for _ in range(self.config.n_layers))

    @property
    def activation_names(self) -> list[str]:
        """The names of the residuals, in the order of the forward pass."""
        return [name for name in self.config.activation_names if not (self.facts.parallel and "resid_mid" in name)]

    @torch.no_grad()
    def generate(self, prompts: Sequence[Tensor], n_new: int) -> list[Int[Tensor, " pos"]]:
        """Continue each prompt greedily by `n_new` tokens, the module run anew for each.

        Raises:
            ValueError: if a prompt and its continuation are longer than the context.
        """
        longest = max(map(len, prompts)) + n_new
        if longest > self.config.n_ctx:
            raise ValueError(f"{longest} tokens are longer than the context of {self.config.n_ctx}")
        continued = []
        for prompt in prompts:
            row = prompt[None]
            for _ in range(n_new):
                row = torch.cat([row, self(row)[:, -1:].argmax(-1)], dim=1)
            continued.append(row[0])
        return continued
