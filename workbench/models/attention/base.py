"""The one slot in which models differ: how queries and keys become a pattern, and how a pattern reads values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise ValueError unless these are floating-point queries, keys and values of one causal attention."""
    if not all(x.is_floating_point() and x.ndim >= 2 for x in (q, k, v)):
        raise ValueError("attention takes floating-point q, k and v of shape [batch, head, pos, d_head]")
    shapes = f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}"
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(f"q and k need the same d_head, and k and v as many positions, not {shapes}")
    if q.shape[-2] > k.shape[-2]:
        raise ValueError(f"there cannot be more queries than keys: {shapes}")


class Settings(BaseModel):
    """A variant's settings: plain, frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Attention(nn.Module, ABC):
    """A causal attention variant, without the linear maps around it.

    Every variant has two paths that agree: `mix`, which training uses, and `pattern` then `read`, which inspection
    uses, so that an edit of the pattern really changes what is read. All tensors are `[batch, head, pos, d_head]`;
    patterns are `[batch, head, query, key]`. Where there are fewer queries than keys, the queries are the last ones.
    """

    name: ClassVar[str]
    """The variant's entry in `ATTENTION`."""
    Settings: ClassVar[type[Settings]] = Settings
    passes_constants: ClassVar[bool] = True
    """Whether a constant added to every value is added unchanged to every output (rows of the mixing matrix sum to 1).
    Weight processing that folds a value bias through attention is exact only then."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings: Any = self.Settings(**settings)

    @classmethod
    def for_context(cls, n_ctx: int, **settings: Any) -> Self:
        """A variant for a model with this context length; defaults may depend on it."""
        return cls(**settings)

    def scores(
        self, q: Float[Tensor, "batch head query d_head"], k: Float[Tensor, "batch head key d_head"]
    ) -> Float[Tensor, "batch head query key"]:
        """Masked attention scores over sqrt(d_head): −inf where a key comes after its query."""
        n_query, n_key = q.shape[-2], k.shape[-2]
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        future = torch.ones(n_query, n_key, dtype=torch.bool, device=q.device).triu(n_key - n_query + 1)
        return scores.masked_fill(future, float("-inf"))

    def pattern(
        self, q: Float[Tensor, "batch head query d_head"], k: Float[Tensor, "batch head key d_head"]
    ) -> Float[Tensor, "batch head query key"]:
        """The attention pattern: softmax of the scores, each row a distribution over the keys up to its query."""
        return self.scores(q, k).softmax(dim=-1)

    def read(
        self, pattern: Float[Tensor, "batch head pos pos"], v: Float[Tensor, "batch head pos d_head"]
    ) -> Float[Tensor, "batch head pos d_head"]:
        """What the layer reads from the values through this pattern: linear in `v`."""
        return self.extend(pattern, v, None)[0]

    @abstractmethod
    def extend(
        self,
        pattern: Float[Tensor, "batch head new pos"],
        v: Float[Tensor, "batch head new d_head"],
        memory: Float[Tensor, "batch head old d_memory"] | None,
    ) -> tuple[Float[Tensor, "batch head new d_head"], Float[Tensor, "batch head pos d_memory"]]:
        """Read for new positions only, given what earlier calls left in memory.

        Args:
            pattern: the new positions' rows over all pos = old + new keys.
            v: the new positions' values.
            memory: what the last call returned, or None when there is no earlier position.

        Returns:
            What the new positions read, and the memory that now covers all positions.
        """

    @abstractmethod
    def mix(
        self,
        q: Float[Tensor, "batch head pos d_head"],
        k: Float[Tensor, "batch head pos d_head"],
        v: Float[Tensor, "batch head pos d_head"],
    ) -> Float[Tensor, "batch head pos d_head"]:
        """The fast path: equal to `read(pattern(q, k), v)`."""

    def mixing_matrix(self, pattern: Float[Tensor, "batch head pos pos"]) -> Float[Tensor, "batch head pos pos"]:
        """The matrix that `read` applies to the values: the pattern itself, or for ChaCAL the resolvent."""
        identity = torch.eye(pattern.shape[-1], dtype=pattern.dtype, device=pattern.device)
        return self.read(pattern, identity.expand_as(pattern))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings)
