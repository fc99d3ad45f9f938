"""TransformerLens hooks that write other values into an activation; every edit of a residual ends in one of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

Hooks = list[tuple[str, Callable[[Tensor, Any], Tensor]]]
"""Hook names and what is done to the activation there, as TransformerLens takes them."""


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
