"""A decoder's positions: learned, sinusoidal or rotary, or none. A new kind is one entry in a dict here.

Its name then belongs in the type of `DecoderConfig.positions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.util.memory import check_memory

BASE = 10_000  # of the periods of sinusoidal and of rotary positions, in both papers


class SinusoidalPositions(nn.Module):
    """Position p as sin(p / 10000^(2i/d)) at coordinate 2i and the cosine of the same at 2i + 1, times `size`.

    These positions are fixed, and have no longest one (Vaswani and others 2017, §3.5).

    There, embeddings are multiplied by √d_model before positions are added (§3.4), which makes their entries about 1.
    Here embeddings stay as they are, and positions have their `size`: both weigh as much against each other as there.

    Nothing is learned, and nothing of it is in a file of weights. Rows are computed when they are asked for.

    Args:
        n_ctx: rows of `table`; `forward` takes any position.
        d_model: the width.
        size: the standard deviation of the entries of the embedding at the start.
    """

    size: Tensor

    def __init__(self, n_ctx: int, d_model: int, size: float) -> None:
        super().__init__()
        self.n_ctx, self.d_model = n_ctx, d_model
        self.register_buffer("size", torch.tensor(size), persistent=False)  # moves with the model, to its type too

    def forward(self, positions: Int[Tensor, "*batch pos"]) -> Float[Tensor, "*batch pos d_model"]:
        dtype = torch.promote_types(self.size.dtype, torch.float32)
        coordinate = torch.arange(self.d_model, device=positions.device)
        period = BASE ** ((coordinate - coordinate % 2).to(dtype) / self.d_model)
        angle = positions.unsqueeze(-1).to(dtype) / period
        rows = torch.where(coordinate % 2 == 0, angle.sin(), angle.cos())
        return (rows * self.size).to(self.size.dtype)

    def table(self) -> nn.Embedding:
        """The rows of all positions of the context, in the form of learned ones that do not learn.

        Raises:
            ValueError: if it is larger than this machine's memory.
        """
        check_memory(4 * self.n_ctx * self.d_model, f"a table of {self.n_ctx:,} positions")
        return nn.Embedding.from_pretrained(self(torch.arange(self.n_ctx, device=self.size.device)))

    def extra_repr(self) -> str:
        return f"{self.n_ctx}, {self.d_model}"


class RotaryPositions(nn.Module):
    """Turns pairs of coordinates of queries and keys by angles that grow with the position (RoFormer, §3.2.2).

    Pair i of d_head / 2 is turned by p / 10000^(2i / d_head) at position p, so that a score depends on how far apart
    query and key are (Su and others 2021, arXiv 2104.09864, Eq. 15). Unlike there, a pair is coordinates i and
    i + d_head / 2, as in Llama, not 2i and 2i + 1: the same but for the order of coordinates, which is learned.

    Nothing is learned here. Angles are computed in float32 or better, for any position.

    Args:
        d_head: the width of a head, an even number.
    """

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.d_head = d_head

    def forward(
        self, x: Float[Tensor, "batch head pos d_head"], positions: Int[Tensor, "*batch pos"]
    ) -> Float[Tensor, "batch head pos d_head"]:
        dtype = torch.promote_types(x.dtype, torch.float32)
        pair = torch.arange(0, self.d_head, 2, device=x.device).to(dtype)
        angle = (positions.unsqueeze(-1).to(dtype) / BASE ** (pair / self.d_head)).unsqueeze(-3)  # the same for heads
        first, second = x.to(dtype).chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.d_head}"


@dataclass(frozen=True)
class _Positions:
    """A way to know positions.

    Attributes:
        add: makes the module that maps positions to what is added to embeddings, from n_ctx, d_model and the standard
            deviation that embeddings start with; None if nothing is added.
        turn: makes the module that turns queries and keys, from d_head; None if nothing does.
        learned: whether each position of the context has a vector of d_model numbers that are learned.
        lens_name: TransformerLens's name for it.
    """

    add: Callable[[int, int, float], nn.Embedding | SinusoidalPositions] | None
    turn: Callable[[int], RotaryPositions] | None
    learned: bool
    lens_name: Literal["standard", "rotary", "none"]


POSITIONS: dict[str, _Positions] = {
    "learned": _Positions(lambda n_ctx, d_model, std: nn.Embedding(n_ctx, d_model), None, True, "standard"),
    "sinusoidal": _Positions(SinusoidalPositions, None, False, "standard"),
    "rotary": _Positions(None, RotaryPositions, False, "rotary"),
    "none": _Positions(None, None, False, "none"),
}
