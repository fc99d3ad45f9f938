"""A model of one's own: any PyTorch module, with a note of where its parts are, to be inspected like a decoder.

    MODELS = {"llama": ModuleKind(build, Parts(embed="tok_embeddings", blocks="layers", attn="attention",
                                               mlp="feed_forward", final_norm="norm", unembed="output"))}

The module knows nothing of this library. It need only be a stack of blocks that add to a residual: what its attention
writes, then what its MLP writes. Its activations then have TransformerLens's names (see `own_model_hooks`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as plain_field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from jaxtyping import Float, Int
from pydantic import ConfigDict, Field, field_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import Tensor, nn

from workbench.models.attention import Attention
from workbench.models.config import DecoderConfig
from workbench.models.initial import InitialStd
from workbench.models.logits import LogitTransform, logit_transform, why_not_decoded
from workbench.tasks.known_text import KnownText
from workbench.util.seeds import generator

if TYPE_CHECKING:
    from workbench.models.own_model_hooks import HookedModule

PROBED, LONGEST_PROBE, FEW = 2, 32, 8
"""Sequences on which a module's parts are checked, and the most tokens of each; tokens of one that tell the rest."""


@dataclass(frozen=True)
class Parts:
    """Where the parts of a module are: names of its submodules, as `named_modules` gives them.

    Attributes:
        embed: the token embedding, whose `weight` is `[d_vocab, d_model]`.
        blocks: the `ModuleList` of blocks.
        attn, mlp: in each block, what writes to the residual: the block's output is its input with both added. Where a
            norm comes between, as in Gemma's blocks, it is the norm that writes.
        final_norm: the norm before the unembedding.
        unembed: the unembedding, whose `weight` is `[d_vocab, d_model]`.
        attention: in each block, where the attention pattern is made, if that is not inside `attn`.
    """

    embed: str
    blocks: str
    attn: str
    mlp: str
    final_norm: str
    unembed: str
    attention: str | None = None


@dataclass(frozen=True)
class ModuleKind:
    """A kind of model that a plugin brings along, an entry of its `MODELS`.

    Attributes:
        build: makes the module with fresh weights from the settings that a run folder keeps; what it draws, it draws
            from PyTorch's global generator, which is seeded before.
        parts: where its parts are.
    """

    build: Callable[..., nn.Module]
    parts: Parts

    def fresh(self, settings: dict[str, Any], draws: torch.Generator) -> nn.Module:
        """A module with fresh weights, drawn from this generator alone; PyTorch's own is left as it was."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(torch.randint(2**31, (), generator=draws)))
            return self.build(**settings)


MODELS: dict[str, ModuleKind] = {}
"""Kinds of models of one's own by name; plugins add theirs. The library's own decoder is not one of them."""


@checked_dataclass(frozen=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class OwnModelConfig(DecoderConfig):
    """What a run folder keeps of a model of one's own: its kind, its settings, and its shape as it was found."""

    module: str = Field(default="", description="the kind, an entry of MODELS")
    settings: dict[str, Any] = Field(default_factory=dict, description="what the kind builds it from")
    n_weights: int = Field(default=0, ge=0, description="how many numbers it learned")
    pattern: bool = Field(default=True, description="whether its attention pattern can be seen")
    parallel: bool = Field(default=False, description="whether there is no residual between attention and MLP")
    # What describes the library's decoder alone is not kept, nor told in any table.
    attention: Any = Field(default=(), exclude=True)
    n_kv_heads: int | None = Field(default=None, exclude=True)
    d_mlp: int | None = Field(default=None, exclude=True)
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = Field(default="learned", exclude=True)
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = Field(default="gelu", exclude=True)
    norm: Literal["layernorm", "rmsnorm", "none"] = Field(default="layernorm", exclude=True)
    dropout: float = Field(default=0.0, exclude=True)
    tied: bool = Field(default=False, exclude=True)
    unembed_bias: bool = Field(default=False, exclude=True)
    initial_std: InitialStd = Field(default_factory=InitialStd, exclude=True)
    heads: dict[str, int] = Field(default_factory=dict, exclude=True)

    @field_validator("attention", mode="after")
    @classmethod
    def _one_variant_per_layer(cls, value: Any, info: Any) -> tuple[dict[str, Any], ...]:
        return ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "d_head", self.d_head or max(1, self.d_model // self.n_heads))
        object.__setattr__(self, "attention", ({"variant": self.module},) * self.n_layers)

    @property
    def n_parameters(self) -> int:
        return self.n_weights


class SeenPattern(Attention):
    """The attention of a module of one's own: its pattern is seen, not computed here, and read as `pattern @ v`."""

    name = "own"

    def pattern(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Float[Tensor, "batch head query key"]:
        raise NotImplementedError("the pattern of a module of one's own is captured, not computed from q and k")


@dataclass(frozen=True)
class Facts:
    """What running a module on a few tokens tells.

    Attributes:
        n_heads: heads of a layer; 1 where no pattern was seen.
        no_pattern: why the pattern of a layer cannot be seen; None if all can.
        parallel: whether attention and MLP of a block read the same residual, so that there is none between them.
        logits: what becomes of the logits behind the unembedding.
        no_decoding: why a residual cannot be read as the last one is; None where it can.
        watched_only: the hook points of which the output reads nothing, so that an edit there is refused.
    """

    n_heads: int
    no_pattern: str | None = plain_field(default=None)
    parallel: bool = plain_field(default=False)
    logits: LogitTransform = plain_field(default=LogitTransform())
    no_decoding: str | None = plain_field(default=None)
    watched_only: tuple[str, ...] = plain_field(default=())


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
        self.module, self.parts, self.build, self.facts = copy.deepcopy(module), parts, build, Facts(1)
        self.eval()
        check_numbers(self.module)
        vocabulary = self._part("embed").weight
        if not isinstance(self.blocks, nn.ModuleList | nn.Sequential):
            raise ValueError(f"{parts.blocks} is not a list of blocks, but {type(self.blocks).__name__}")
        shape = {"d_vocab": vocabulary.shape[0], "d_model": vocabulary.shape[1], "n_layers": len(self.blocks)}
        first = OwnModelConfig(
            **shape, n_heads=1, n_ctx=n_ctx, module=name, settings=settings or {}, n_weights=count_weights(module)
        )
        self.config = first
        if tuple(self.unembedding.weight.shape) != (first.d_vocab, first.d_model):
            raise ValueError(
                f"{parts.unembed} is no unembedding of {parts.embed}: its weight is "
                f"{list(self.unembedding.weight.shape)}, not [{first.d_vocab}, {first.d_model}]"
            )
        tokens = probe_tokens(first.d_vocab, n_ctx, vocabulary.device)
        with in_one_line(f"{name} cannot be run with hooks"):
            self.facts = check_parts(self.hooked(), self, tokens)
            found = {"n_heads": self.facts.n_heads, "pattern": self.facts.no_pattern is None}
            self.config = OwnModelConfig(**{**_fields(first), **found, "parallel": self.facts.parallel})
            self.facts = self._learnt(tokens)

    @classmethod
    def of_kind(cls, kind: str, settings: dict[str, Any], n_ctx: int, module: nn.Module | None = None) -> OwnModel:
        """A model of a kind in `MODELS`: a module that is there already, or by default one with fresh weights."""
        made = MODELS[kind]

        def build(draws: torch.Generator) -> nn.Module:
            return made.fresh(settings, draws)

        module = build(generator(0, "own model")) if module is None else module
        return cls(module, made.parts, n_ctx, name=kind, settings=settings, build=build)

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
        return logits_of(self.module(tokens))

    def hooked(self) -> HookedModule:
        """A hooked copy."""
        from workbench.models.own_model_hooks import HookedModule
        from workbench.models.watched_only import let_watch_only

        hooked = HookedModule(copy.deepcopy(self.module), self.parts, self.config)
        let_watch_only(hooked, self.facts.watched_only)
        return hooked

    def _learnt(self, tokens: Int[Tensor, "batch pos"]) -> Facts:
        """The facts with what edits reach and how logits are made, which running the hooked model tells."""
        from workbench.models.watched_only import watched_only

        hooked, tokens = self.hooked(), tokens[:1, :FEW]
        found = logit_transform(hooked, tokens)
        transform = found or LogitTransform()
        why = why_not_decoded(hooked, tokens, self.final_norm, self.unembedding, transform)
        if found is None:
            why = "what it does to the logits of its unembedding is no scale and no soft cap"
        watched = watched_only(hooked, tokens)
        return replace(self.facts, logits=transform, no_decoding=why, watched_only=watched)

    @property
    def blocks(self) -> nn.ModuleList:
        return cast(nn.ModuleList, self._part("blocks"))

    @property
    def token_embedding(self) -> nn.Embedding:
        return cast(nn.Embedding, self._part("embed"))

    @property
    def unembedding(self) -> nn.Linear:
        return cast(nn.Linear, self._part("unembed"))

    @property
    def final_norm(self) -> nn.Module:
        return self._part("final_norm")

    @cached_property
    def attention(self) -> tuple[Attention, ...]:
        """What each layer does with its pattern."""
        return tuple(SeenPattern() for _ in range(self.config.n_layers))

    @property
    def activation_names(self) -> list[str]:
        """The names of the residuals, in the order of the forward pass."""
        return [name for name in self.config.activation_names if not (self.facts.parallel and "resid_mid" in name)]

    def _part(self, which: str) -> Any:
        return part(self.module, getattr(self.parts, which), which)

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


def part(module: nn.Module, name: str, which: str) -> nn.Module:
    """A submodule by name. Raises ValueError, which names those beside where it should be, if there is none."""
    try:
        return module.get_submodule(name)
    except AttributeError:
        parent, known = module, name.split(".")
        while known and hasattr(parent, known[0]):
            parent, known = getattr(parent, known[0]), known[1:]
        there = ", ".join(name for name, _ in parent.named_children()) or "nothing"
        raise ValueError(f"{type(module).__name__} has no {name!r}, given as {which}; there is: {there}") from None


def logits_of(output: Any) -> Tensor:
    """The logits in what a module gave out."""
    found = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", output)
    if isinstance(found, tuple | list):  # of a loss and logits, the logits
        tensors = [part for part in found if isinstance(part, Tensor)]
        found = next((part for part in tensors if part.ndim == 3), found)
    if not isinstance(found, Tensor):
        raise ValueError(f"the module gives out {type(output).__name__}, in which there are no logits")
    return found


def probe_tokens(d_vocab: int, n_ctx: int, device: torch.device) -> Int[Tensor, "batch pos"]:
    """A few tokens, the same at every call, at which a model and its hooked copy are compared.

    Two short sequences would not tell that a fast path differs beyond some length: they are as long as the context, up
    to a bound that keeps the check at a few milliseconds.
    """
    length = min(n_ctx, LONGEST_PROBE)
    shape = (PROBED + (length == PROBED), length)  # so that a position is not taken for a sequence
    return torch.randint(d_vocab, shape, generator=generator(0, "hooked model")).to(device)


def check_numbers(module: nn.Module) -> None:
    """Raise ValueError, which names it, if a weight is no finite number."""
    for name, values in module.named_parameters():
        # Both the least and the most are NaN where one number is.
        if values.is_floating_point() and values.numel() and not torch.stack(values.aminmax()).isfinite().all():
            raise ValueError(f"{name} has numbers that are NaN or infinite")


def count_weights(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _fields(config: OwnModelConfig) -> dict[str, Any]:
    names = ("n_layers", "d_model", "d_vocab", "n_ctx", "module", "settings", "n_weights")
    return {name: getattr(config, name) for name in names}
