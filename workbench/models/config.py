"""The shape of a decoder, as plain data that is checked when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator
from pydantic.dataclasses import dataclass
from torch import nn

from workbench.models.attention import ATTENTION, Attention
from workbench.models.norms_and_mlps import MLPS, NORMS
from workbench.models.positions import POSITIONS
from workbench.util.lookup import lookup
from workbench.util.strict_settings import checked, true_is_no_number

if TYPE_CHECKING:
    from workbench.tasks import Task


GPT2_STD = 0.02  # of every weight, whatever the width (Radford and others 2019)
FAN_IN: Literal["fan_in"] = "fan_in"
Std = Annotated[float, Field(strict=True, ge=0, le=1e3)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False))
class InitialStd:
    """Standard deviations of a decoder's initial weights, each a number or `fan_in`, which is 1/√(inputs of the map).

    What writes to the residual (`attn.o`, `mlp.fc_out`) begins smaller than the rest by √(2 · n_layers), as in GPT-2,
    so that the residual does not grow with depth. Biases begin at 0, norms at 1.
    """

    embedding: Std = Field(default=GPT2_STD, description="of tokens and positions; of the unembedding too if tied")
    unembedding: Std | Literal["fan_in"] = Field(default=GPT2_STD, description="of the unembedding and extra heads")
    rest: Std | Literal["fan_in"] = Field(default=GPT2_STD, description="of the maps of attention and MLP")

    def of(self, name: str, module: nn.Linear | nn.Embedding, n_layers: int) -> float:
        """The standard deviation of one module's weights, by its name in the decoder."""
        if isinstance(module, nn.Embedding):
            return self.embedding
        of_kind = self.unembedding if name.startswith(("unembedding", "extra_heads")) else self.rest
        std = module.in_features**-0.5 if of_kind == FAN_IN else of_kind
        return std / (2 * n_layers) ** 0.5 if name.endswith(("attn.o", "mlp.fc_out")) else std


Positive = Annotated[int, Field(ge=1, le=2**31)]
MOST_LAYERS = 1024  # each has settings of its own, in memory as soon as a config is read


@dataclass(frozen=True, config=ConfigDict(extra="forbid", validate_default=True, allow_inf_nan=False))
class DecoderConfig:
    """The shape of a `Decoder`. Frozen; an unknown field is an error.

    `attention` is one variant for all layers, or one per layer. A variant is a name in `ATTENTION`, or a mapping with
    its settings, `{"variant": "chacal", "gamma": 0.8}`; after validation it is always one such mapping per layer.

    With `d_mlp=0` a layer is its attention alone: there is no MLP and no norm before one, and the residual after the
    layer (`hook_resid_post`) is the residual after its attention (`hook_resid_mid`).

    Raises:
        ValueError: if a field is unknown or out of range (pydantic's ValidationError, which is a ValueError).
    """

    n_layers: Annotated[int, Field(ge=1, le=MOST_LAYERS)]
    d_model: Positive
    n_heads: Positive
    d_vocab: Positive
    n_ctx: Positive
    attention: Any = Field(default="standard", description="a variant, or one per layer")
    d_head: Positive | None = Field(default=None, description="width of a head; by default d_model / n_heads")
    n_kv_heads: Positive | None = Field(
        default=None, description="heads of keys and values, each read by as many queries' heads; by default n_heads"
    )
    d_mlp: Annotated[int, Field(ge=0, le=2**31)] | None = Field(
        default=None, description="width of the MLP; by default 4 d_model; 0 for layers of attention alone"
    )
    positions: Literal["learned", "sinusoidal", "rotary", "none"] = Field(
        default="learned", description="learned; fixed sines and cosines; rotary, as in Llama; or none"
    )
    activation: Literal["gelu", "gelu_tanh", "relu", "swiglu"] = Field(
        default="gelu",
        description="gelu is exact; gelu_tanh is its approximation by tanh, as GPT-2 has it; swiglu is gated, as Llama",
    )
    norm: Literal["layernorm", "rmsnorm", "none"] = Field(
        default="layernorm", description="layernorm, rmsnorm (without mean and bias, as Llama has it), or none"
    )
    dropout: float = Field(default=0.0, ge=0, lt=1, description="on embeddings and on what each sublayer writes")
    tied: bool = Field(default=False, description="unembed with the rows of the embedding")
    unembed_bias: bool = False
    initial_std: InitialStd = Field(
        default_factory=InitialStd,
        description="size of the initial weights: one number for all, or initial_std.embedding, .unembedding and .rest",
    )
    heads: dict[str, Positive] = Field(
        default_factory=dict, description="extra output heads: name -> number of classes"
    )

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: Any) -> Any:
        fields: dict[str, Any] = cls.__pydantic_fields__  # type: ignore[attr-defined]
        return true_is_no_number(fields[info.field_name].annotation, value)

    @field_validator("attention", mode="after")
    @classmethod
    def _one_variant_per_layer(cls, value: Any, info: Any) -> tuple[dict[str, Any], ...]:
        return attention_per_layer(value, info.data.get("n_layers", 1))

    @field_validator("initial_std", mode="before")
    @classmethod
    def _one_size_for_all(cls, value: Any) -> Any:
        of_all = isinstance(value, int | float | str) and not isinstance(value, bool)
        return dict.fromkeys(("embedding", "unembedding", "rest"), value) if of_all else value

    @field_validator("heads", mode="after")
    @classmethod
    def _names_can_be_attributes(cls, value: dict[str, int]) -> dict[str, int]:
        taken = {"main", *dir(nn.ModuleDict())}  # PyTorch finds submodules by attribute
        wrong = [name for name in value if name in taken or not name.isidentifier()]
        if wrong:
            raise ValueError(f"{wrong[0]!r} cannot name an extra head: it is no identifier, or taken")
        return value

    def __post_init__(self) -> None:
        if self.d_head is None and self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} is not a multiple of n_heads={self.n_heads}; give d_head as well")
        d_head = self.d_head or self.d_model // self.n_heads
        if POSITIONS[self.positions].turn is not None and d_head % 2:
            raise ValueError(f"rotary positions turn pairs of coordinates: d_head is an even number, not {d_head}")
        object.__setattr__(self, "d_head", d_head)
        object.__setattr__(self, "n_kv_heads", self.n_kv_heads or self.n_heads)
        if self.n_heads % (self.n_kv_heads or 1):
            raise ValueError(f"n_heads={self.n_heads} is not a multiple of n_kv_heads={self.n_kv_heads}")
        object.__setattr__(self, "d_mlp", 4 * self.d_model if self.d_mlp is None else self.d_mlp)

    @property
    def n_parameters(self) -> int:
        """The numbers that a decoder of this shape learns, but for the few that an attention variant may add."""
        assert self.d_head is not None and self.d_mlp is not None and self.n_kv_heads is not None
        d, width, kv = self.d_model, self.n_heads * self.d_head, self.n_kv_heads * self.d_head
        norm = NORMS[self.norm].learned * d
        mlp = norm + MLPS[self.activation].learned(d, self.d_mlp) if self.d_mlp else 0
        layer = norm + ((d + 1) * (width + 2 * kv) + (width + 1) * d) + mlp
        tables = self.d_vocab * (2 - self.tied) + self.n_ctx * POSITIONS[self.positions].learned
        heads = sum(self.heads.values()) * (d + 1) + self.d_vocab * self.unembed_bias
        return self.n_layers * layer + norm + tables * d + heads

    @property
    def activation_names(self) -> list[str]:
        """The names of the activations that a decoder of this shape can keep, in the order of its forward pass."""
        points = ("resid_pre", "resid_mid", "resid_post")
        layers = [f"blocks.{i}.hook_{point}" for i in range(self.n_layers) for point in points]
        return [*layers, "ln_final.hook_out"]

    def attention_layer(self, layer: int) -> Attention:
        """A fresh attention variant for one layer."""
        settings = dict(self.attention[layer])
        return ATTENTION[settings.pop("variant")].for_model(self.n_ctx, self.n_heads, **settings)


def attention_per_layer(attention: Any, n_layers: int) -> tuple[dict[str, Any], ...]:
    """A model's `attention`, in any of its forms, as one mapping per layer with every setting spelt out.

    Raises:
        ValueError: if a variant or a setting does not exist, or the layers are not as many as the model's.
    """
    one_or_each = _listed(attention)
    layers = one_or_each if isinstance(one_or_each, list) else [one_or_each] * n_layers
    if len(layers) != n_layers:
        raise ValueError(f"attention names {len(layers)} layers, but n_layers is {n_layers}")
    in_full = []
    for layer in layers:
        settings = {"variant": layer.strip()} if isinstance(layer, str) else layer
        if not isinstance(settings, Mapping) or not isinstance(settings.get("variant"), str):
            raise ValueError(f"an attention variant is a name or a mapping with 'variant', not {layer!r}")
        settings = dict(settings)
        kind = lookup(ATTENTION, settings.pop("variant"), "attention variant")
        unknown = set(settings) - set(kind.Settings.model_fields)
        if unknown:
            exists = ", ".join(kind.Settings.model_fields) or "no setting"
            raise ValueError(f"{kind.name} attention has no setting {sorted(unknown)[0]!r}; there is: {exists}")
        made = checked(kind.Settings, settings, f"{kind.name} attention: ")
        in_full.append({"variant": kind.name, **made.model_dump()})
    return tuple(in_full)


def fit_attention(attention: Any, task: Task) -> Any:
    """A model's `attention`, in any of its forms, with the settings filled in that follow from a new run's task.

    What is no attention stays as it is, to be refused by `DecoderConfig`.

    Raises:
        ValueError: if a variant is asked for what the task does not have.
    """
    layers = _listed(attention)
    return [_fit(layer, task) for layer in layers] if isinstance(layers, list) else _fit(layers, task)


def without_fitted(layer: Mapping[str, Any], task: Task) -> dict[str, Any]:
    """One layer's variant in its full form without the settings that `fit_attention` would fill in as they are."""
    given = dict(layer)
    for name in layer:
        with suppress(ValueError):  # the task does not have it, so it was given
            fitted = _fit({key: value for key, value in layer.items() if key != name}, task)
            if name in fitted and fitted[name] == layer[name]:
                del given[name]
    return given


def _fit(layer: Any, task: Task) -> Any:
    settings = {"variant": layer.strip()} if isinstance(layer, str) else layer
    name = settings.get("variant") if isinstance(settings, Mapping) else None
    if not isinstance(name, str) or name not in ATTENTION:
        return layer
    rest = {key: value for key, value in settings.items() if key != "variant"}
    return {"variant": name, **ATTENTION[name].fit_to_task(rest, task)}


def _listed(attention: Any) -> Any:
    """Variants one per layer as a list, whether they are listed or stand in one text; all else as it is."""
    if isinstance(attention, str):
        return attention.split(",") if "," in attention else attention
    return list(attention) if isinstance(attention, Sequence) else attention
