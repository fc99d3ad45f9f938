"""Affine lenses: for each point of the residual a map that carries it to the end, where the model decodes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from jaxtyping import Float
from torch import Tensor

from workbench.util.files import load_tensors, parse_json, save_tensors


@dataclass(frozen=True)
class AffineLens:
    """Maps x ↦ x + x W + b from points of the residual to its end.

    Attributes:
        points: hook names, one a map; other points are left as they are.
        weight: `[point, d_model, d_model]`, what is added to the identity.
        bias: `[point, d_model]`.
        settings: how it was made.
        NAME: its name in `LENSES`; a file says that it holds such a lens.
    """

    points: tuple[str, ...]
    weight: Float[Tensor, "point d_model d_model"]
    bias: Float[Tensor, "point d_model"]
    settings: Mapping[str, Any] = field(default_factory=dict)

    NAME: ClassVar[str]

    def translate(self, point: str, residual: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The residual at a point as it would be at the end, in the residual's precision.

        Raises:
            ValueError: if the lens was made for a residual of another width.
        """
        if residual.shape[-1] != self.bias.shape[-1]:
            raise ValueError(f"this lens is for a d_model of {self.bias.shape[-1]}, not {residual.shape[-1]}")
        if point not in self.points:
            return residual
        i = self.points.index(point)
        weight, bias = self.weight[i].to(residual), self.bias[i].to(residual)
        return residual + residual @ weight + bias

    def save(self, path: str | Path) -> None:
        """Write the lens as a safetensors file, with a checksum; the file is either whole or not there."""
        words = {
            "kind": f"{self.NAME} lens",
            "points": json.dumps(self.points),
            "settings": json.dumps(dict(self.settings)),
        }
        save_tensors(Path(path), {"weight": self.weight.cpu(), "bias": self.bias.cpu()}, words)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a lens that `save` wrote. Raises ValueError, in one line, if the file is no such lens or is damaged."""
        tensors, words = load_tensors(Path(path))
        if words.get("kind") != f"{cls.NAME} lens":
            raise ValueError(f"{path} is no {cls.NAME} lens")
        return cls(tuple(parse_json(words["points"])), **tensors, settings=parse_json(words["settings"]))
