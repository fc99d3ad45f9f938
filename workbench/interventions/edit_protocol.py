"""What edits of a forward pass are made of: what an edit is, its hooks, heads, and the points that can be edited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments.residual import projection
from workbench.models import AnyHooked
from workbench.tasks import Task

Hooks = list[tuple[str, Callable[[Tensor, Any], Tensor]]]
"""Hook names and what is done to the activation there, as TransformerLens takes them."""


@torch.no_grad()
def edited_logits(model: AnyHooked, tokens: Int[Tensor, "batch pos"], hooks: Hooks) -> Float[Tensor, "batch pos class"]:
    """The logits of a forward pass with these hooks; without any, those of the model as it is."""
    with model.hooks(fwd_hooks=hooks):
        logits: Tensor = model(tokens)
    return logits


def put(
    activation: Float[Tensor, "batch pos *rest"], hook: Any, *, where: Bool[Tensor, "..."], values: Float[Tensor, "..."]
) -> Float[Tensor, "batch pos *rest"]:
    """The activation with other values where `where` is true; both broadcast to its shape."""
    return torch.where(where.to(activation.device), values.to(activation), activation)


def put_rows(
    activation: Float[Tensor, "batch pos *rest"],
    hook: Any,
    *,
    example: Int[Tensor, " row"],
    position: Int[Tensor, " row"],
    values: Float[Tensor, "row d"],
) -> Float[Tensor, "batch pos *rest"]:
    """The activation with a new vector at each given (example, position), which covers all heads if there are heads."""
    edited = activation.flatten(2).clone()
    edited[example, position] = values.to(edited)
    return edited.view_as(activation)


Head = tuple[int, int]
"""Layer and head, both from 0."""


def in_layers(heads: Sequence[Head]) -> dict[int, list[int]]:
    """Heads by their layer, each once: `[(0, 1), (0, 3), (2, 0)]` is `{0: [1, 3], 2: [0]}`."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in sorted(set(heads)):
        by_layer.setdefault(layer, []).append(head)
    return by_layer


def check_head(model: AnyHooked, layer: int | None, head: int | None) -> None:
    """Raise ValueError if the model has no such layer or head; None is every one."""
    n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
    if layer is not None and not 0 <= layer < n_layers:
        raise ValueError(f"there is no layer {layer}; the model has {n_layers}, from 0")
    if head is not None and not 0 <= head < n_heads:
        raise ValueError(f"there is no head {head}; the model has {n_heads}, from 0")


def heads_at(model: AnyHooked, layer: int | None, head: int | None) -> list[Head]:
    """The heads that are meant, where None is every one. Raises ValueError as `check_head`."""
    check_head(model, layer, head)
    layers = range(model.cfg.n_layers) if layer is None else [layer]
    return [(at, each) for at in layers for each in (range(model.cfg.n_heads) if head is None else [head])]


def writes(subject: Subject) -> list[str]:
    """Hook names of what attention and the MLP, if there is one, write, layer by layer."""
    parts = ("attn",) if subject.attention_only else ("attn", "mlp")
    return [f"blocks.{layer}.hook_{part}_out" for layer in range(subject.n_layers) for part in parts]


def points(subject: Subject) -> list[str]:
    """Hook names of the residual, from the embedding on, and then of what is written to it."""
    return [*projection.from_embedding(subject), *writes(subject)]


def point_in_words(point: str) -> str:
    """One of `points` in words, such as `layer 0, after attention`."""
    if point == "blocks.0.hook_resid_pre":
        return "the embedding"
    parts = point.split(".")
    words = {
        "hook_resid_mid": "after attention",
        "hook_resid_post": "after the MLP",
        "hook_attn_out": "attention's write",
        "hook_mlp_out": "the MLP's write",
    }
    return f"layer {parts[1]}, {words[parts[2]]}" if len(parts) == 3 and parts[2] in words else point


class Edit(Protocol):
    """What every kind of edit of one input offers. A position that is None stands for every position."""

    def in_words(self, task: Task) -> str:
        """What is edited, for people."""

    def places(self, n_pos: int) -> Sequence[int]:
        """The positions at which something is changed.

        Raises:
            ValueError: if there is no such position.
        """

    def hooks(self, model: AnyHooked, seen: Capture) -> Hooks:
        """The hooks that make the edit on the captured input.

        Raises:
            ValueError: if the model or the input has no such place or token.
        """


def span(position: int | None, n_pos: int) -> Sequence[int]:
    if position is None:
        return range(n_pos)
    if not 0 <= position < n_pos:
        raise ValueError(f"there is no position {position}; the input has {n_pos}, from 0")
    return [position]


class AtPosition:
    """What edits of one position have in common, or of every one, where it is None."""

    position: int | None

    @property
    def where_in_words(self) -> str:
        return "" if self.position is None else f" at position {self.position}"

    def places(self, n_pos: int) -> Sequence[int]:
        return span(self.position, n_pos)

    def mask(self, seen: Capture) -> Bool[Tensor, " pos"]:
        """Where a captured input is edited. Raises ValueError if there is no such position."""
        n_pos = seen.batch.tokens.shape[1]
        return torch.isin(torch.arange(n_pos), torch.tensor(self.places(n_pos)))


def head_in_words(layer: int | None, head: int | None) -> str:
    where = "every layer" if layer is None else f"layer {layer}"
    return f"{where}, {'every head' if head is None else f'head {head}'}"
