"""What describes a model of one's own: where its parts are, what builds it, and its shape in a run's config."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import ConfigDict, Field, field_validator
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import nn

from workbench.models.config import DecoderConfig, InitialStd


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

    def of(self, module: nn.Module, which: str) -> Any:
        """One of these parts of a module, or of one of its blocks.

        Raises:
            ValueError: if there is none of its name; the message says what is beside where it should be.
        """
        name = getattr(self, which)
        try:
            return module.get_submodule(name)
        except AttributeError:
            parent, rest = module, name.split(".")
            while rest and hasattr(parent, rest[0]):
                parent, rest = getattr(parent, rest[0]), rest[1:]
            exists = ", ".join(child for child, _ in parent.named_children()) or "nothing"
            raise ValueError(f"{type(module).__name__} has no {name!r}, given as {which}; there is: {exists}") from None


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
