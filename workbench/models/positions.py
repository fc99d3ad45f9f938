"""Sinusoidal positions: fixed ones, which have no longest length (Vaswani and others 2017, §3.5)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.util.memory import check_memory


class SinusoidalPositions(nn.Module):
    """Position p as sin(p / 10000^(2i/d)) at coordinate 2i and the cosine of the same at 2i + 1, times `size`.

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
        period = 10_000 ** ((coordinate - coordinate % 2).to(dtype) / self.d_model)
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
