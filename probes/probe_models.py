"""A fitted probe: it scores new vectors for each class, after standardising them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

NEVER = -1e9  # the score of a class that a label does not have


@dataclass(frozen=True)
class Linear:
    """Scores that are linear in the vectors: `x·weight + bias`."""

    weight: Float[Tensor, "cell label d class"]
    bias: Float[Tensor, "cell label class"]

    def scores(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell label n class"]:
        return x[:, None] @ self.weight + self.bias[:, :, None]


@dataclass(frozen=True)
class Network:
    """One hidden layer: `relu(x̂·first + first_bias)·second + second_bias`, x̂ the standardised vectors."""

    scale: Scale
    first: Float[Tensor, "cell label d hidden"]
    first_bias: Float[Tensor, "cell label hidden"]
    second: Float[Tensor, "cell label hidden class"]
    second_bias: Float[Tensor, "cell label class"]

    def scores(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell label n class"]:
        hidden = (self.scale(x)[:, None] @ self.first + self.first_bias[:, :, None]).relu()
        return hidden @ self.second + self.second_bias[:, :, None]


@dataclass(frozen=True)
class Scale:
    """Standardises coordinates to mean 0 and standard deviation 1 over the rows that have a label; constant ones to 0.

    Attributes:
        mean: is subtracted.
        by: then multiplies.
    """

    mean: Float[Tensor, "cell d"]
    by: Float[Tensor, "cell d"]

    @classmethod
    def of(cls, x: Float[Tensor, "cell n d"], y: Int[Tensor, "cell label n"]) -> Scale:
        weight = (y >= 0).any(1).to(x.dtype)[..., None]
        count = weight.sum(1).clamp(min=1)
        mean = (x * weight).sum(1) / count
        variance = ((x - mean[:, None]).square() * weight).sum(1) / count
        largest = (x.abs() * weight).amax(1)
        constant = variance.sqrt() <= 1e-6 * largest + torch.finfo(x.dtype).tiny  # rounding is no signal
        return cls(mean, torch.where(constant, 0.0, variance.clamp(min=1e-30).rsqrt()))

    def __call__(self, x: Float[Tensor, "cell n d"]) -> Float[Tensor, "cell n d"]:
        return (x - self.mean[:, None]) * self.by[:, None]

    def undo(self, weight: Float[Tensor, "cell label d class"], bias: Float[Tensor, "cell label class"]) -> Linear:
        """The weights for vectors as they are, from those for standardised ones."""
        weight = weight * self.by[:, None, :, None]
        return Linear(weight, bias - torch.einsum("cd,cldk->clk", self.mean, weight))


Fitted = Linear | Network
"""Fitted probes, one for every cell and label: `scores` of each class for each row, the largest the prediction."""

Kind = Callable[..., Fitted]
"""(x, y, n_classes, generator=…, settings) -> Fitted."""


def at_least(name: str, value: object, least: float, whole: bool = False) -> None:
    """Raise ValueError if a setting is not a number, or too small."""
    is_number = isinstance(value, int) if whole else isinstance(value, int | float)
    if not is_number or isinstance(value, bool) or not value >= least:  # type: ignore[operator]
        wanted = f"a whole number of at least {least:g}" if whole else "a number above 0"
        raise ValueError(f"{name} of a probe is {wanted}, not {value!r}")


def absent(hot: Float[Tensor, "cell label n class"]) -> Float[Tensor, "cell label class"]:
    """What is added to the scores of each class: `NEVER` if no row has this class, else 0."""
    return torch.where(hot.any(2), 0.0, NEVER).to(hot.dtype)


def one_hot(y: Int[Tensor, "cell label n"], n_classes: int, dtype: torch.dtype) -> Float[Tensor, "cell label n class"]:
    """One-hot rows; a row without a label is all 0."""
    hot = torch.zeros(*y.shape, n_classes, dtype=dtype)
    return hot.scatter_(-1, y.clamp(min=0)[..., None], (y >= 0).to(dtype)[..., None])
