"""Named directions of a residual from a file: a basis of one's own beside the model's encoder and decoder bases.

A safetensors file holds a sparse autoencoder's decoder, mean differences, or a probe's weights: one matrix
`[direction, d_model]` (beside others it is called `W_dec`), with the directions' names as a JSON list in the metadata
`names`, or one vector `[d_model]` a direction under its name. The metadata `point` may name the hook where they were
found.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.util.files import load_tensors, parse_json, save_tensors
from workbench.util.lookup import lookup
from workbench.util.messages import check_characters

MATRIX, DECODER = "directions", "W_dec"


@dataclass(frozen=True, eq=False)
class Directions:
    """Named directions.

    Attributes:
        name: what to call the basis.
        vectors: the directions, of any length.
        names: of each direction.
        point: the hook at which they were found, if it is known.
    """

    name: str
    vectors: Float[Tensor, "direction d_model"]
    names: tuple[str, ...]
    point: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> Float[Tensor, " d_model"]:
        """The direction of this name. Raises ValueError if there is none, or it is zero."""
        vector = self.vectors[lookup({each: i for i, each in enumerate(self.names)}, name, f"direction of {self.name}")]
        if not bool(vector.any()):
            raise ValueError(f"the direction {name!r} of {self.name} is zero: it leads nowhere")
        return vector

    def save(self, path: str | Path) -> None:
        """Write them to a file that `read` reads."""
        about = {"names": json.dumps(self.names)} | ({} if self.point is None else {"point": self.point})
        save_tensors(Path(path), {MATRIX: self.vectors.contiguous()}, about)

    @classmethod
    def read(cls, path: str | Path, d_model: int) -> Directions:
        """The directions of a file, for a model of this width.

        Raises:
            ValueError: in one line, if it is no safetensors file, holds no such directions, another width, numbers that
                are NaN or infinite, or a name twice.
        """
        path = Path(path)
        tensors, about = load_tensors(path, foreign=True)
        names, vectors = _named(tensors, about, path)
        if vectors.ndim != 2 or not len(vectors) or vectors.shape[1] != d_model or not vectors.is_floating_point():
            shape, kind = list(vectors.shape), str(vectors.dtype).removeprefix("torch.")
            raise ValueError(
                f"{path}: directions of this model are numbers with decimals [direction, {d_model}], not {kind} {shape}"
            )
        if not bool(vectors.isfinite().all()):
            raise ValueError(f"{path}: a direction is NaN or infinite")
        if len(set(names)) < len(names):
            raise ValueError(f"{path}: two directions have the name {max(names, key=names.count)!r}")
        for name in names:
            check_characters(name, f"{path}: the name of a direction")
        point = about.get("point", "")
        # before a layer is after the one before it
        if before := re.fullmatch(r"blocks\.([1-9]\d*)\.hook_resid_pre", point):
            point = f"blocks.{int(before[1]) - 1}.hook_resid_post"
        return cls(path.name, vectors.float(), tuple(names), point or None)


def _named(tensors: dict[str, Tensor], about: dict[str, str], path: Path) -> tuple[list[str], Tensor]:
    """The names and vectors of a file. Raises ValueError if it has other tensors."""
    matrices = [name for name, tensor in tensors.items() if tensor.ndim == 2]
    if not matrices and tensors and len({tensor.shape for tensor in tensors.values()}) == 1:
        return list(tensors), torch.stack(list(tensors.values()))
    matrix = DECODER if DECODER in matrices else matrices[0] if len(matrices) == 1 else None
    if matrix is None:
        listed = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items()) or "none"
        raise ValueError(
            f"{path} holds neither one matrix [direction, d_model] nor one vector [d_model] a direction; its tensors: "
            f"{listed}"
        )
    n = len(tensors[matrix])
    try:
        names = parse_json(about["names"]) if "names" in about else list(map(str, range(n)))
    except ValueError:
        names = None
    if not isinstance(names, list) or len(names) != n or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: names in its metadata is a JSON list of {n} texts, one for each direction")
    return names, tensors[matrix]
