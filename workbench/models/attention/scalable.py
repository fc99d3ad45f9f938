"""Scalable softmax: tempered scores with a temperature of each head's own (Nakanishi 2025, arXiv 2501.19399)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from workbench.models.attention import base
from workbench.models.attention.standard import StandardAttention
from workbench.models.attention.tempered import DIGITS, temper

if TYPE_CHECKING:
    from workbench.tasks import Task


class ScalableAttention(StandardAttention):
    """softmax(s ln n · q kᵀ / sqrt(d_head)) v, with s learned, one for each head: n^(s z) in place of e^z.

    n is the number of keys that a query can attend to, which is its 1-based position. It is tempered softmax with
    n="position" but for the number of its temperatures: there each layer has one β.

    The first s is found as the first β of `tempered` is: where a run is made, s ln n starts at 1 for the median
    training sequence, and the run's config states it; a decoder made by hand starts from 1/ln(n_ctx/2).

    Args:
        n_heads: heads of the layer; with 1, the one s is that of all heads.
        settings: `s`.
    """

    name = "scalable"

    class Settings(base.Settings):
        """Settings of scalable softmax."""

        s: float | None = Field(
            None,
            description="initial s of every head; by default s ln n starts at 1 for the median training sequence "
            "(null: for n_ctx/2)",
        )

    def __init__(self, n_heads: int = 1, **settings: Any) -> None:
        super().__init__(**settings)
        self.s = nn.Parameter(torch.full((n_heads,), 1.0 if self.settings.s is None else self.settings.s))

    @classmethod
    def fit_to_task(cls, settings: Mapping[str, Any], task: Task) -> dict[str, Any]:
        if "s" in settings:
            return dict(settings)
        return {**settings, "s": round(1 / math.log(max(task.median_training_length(), 2)), DIGITS)}

    @classmethod
    def for_model(cls, n_ctx: int, n_heads: int | None = None, **settings: Any) -> Self:
        if settings.get("s") is None:
            settings["s"] = 1 / math.log(max(n_ctx / 2, 2.0))
        return cls(n_heads or 1, **settings)

    def scale_queries(self, q: Tensor, k: Tensor, at: Tensor | None = None) -> Tensor:
        return temper(q, self.s.unsqueeze(-1), base.query_positions(q, k, at) + 1)
