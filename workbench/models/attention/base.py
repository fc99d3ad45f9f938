"""The one slot in which models differ: how queries and keys become a pattern, and how a pattern reads values."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import torch
from jaxtyping import Float, Int
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


def query_positions(q: Tensor, k: Tensor, at: Int[Tensor, " batch"] | None = None) -> Int[Tensor, "*batch query"]:
    """0-based positions of the queries: the last ones of the keys, or those given, `[batch, 1, 1]`."""
    if at is not None:
        return at.view(-1, 1, 1)
    return torch.arange(k.shape[-2] - q.shape[-2], k.shape[-2], device=q.device)


def remember(memory: Float[Tensor, "batch head pos d"], new: Tensor, at: Int[Tensor, " batch"] | None) -> None:
    """Write the new positions' rows, the last ones or one of each sequence."""
    if at is None:
        memory[..., memory.shape[-2] - new.shape[-2] :, :] = new
    else:
        memory[torch.arange(len(at), device=at.device), :, at] = new[:, :, 0].to(memory.dtype)


class Settings(BaseModel):
    """A variant's settings: plain, frozen, and strict about names."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Attention(nn.Module):
    """A causal attention variant, without the linear maps around it.

    Every variant has two paths that agree: `mix`, which training uses, and `pattern` then `read`, which inspection
    uses, so that an edit of the pattern really changes what is read; `extend` continues `mix` where a model decodes.
    The least that a new variant says is one of `scale_queries`, `scores` and `read`: the rest follows, if not fast. All
    tensors are `[batch, head, pos, d_head]`; patterns are `[batch, head, query, key]`. Where there are fewer queries
    than keys, the queries are the last ones, unless `at` says where the one query of each sequence is.
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

    def scale_queries(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch head query d_head"]:
        """Queries as the scores take them, which may depend on their positions: here as they are."""
        return q

    def scores(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch head query key"]:
        """Masked attention scores over sqrt(d_head): −inf where a key comes after its query."""
        future = torch.arange(k.shape[-2], device=q.device) > query_positions(q, k, at).unsqueeze(-1)
        scores = self.scale_queries(q, k, at) @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return scores.masked_fill(future, float("-inf"))

    def pattern(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch head query key"]:
        """The attention pattern: softmax of the scores, each row a distribution over the keys up to its query."""
        return self.scores(q, k, at).softmax(dim=-1)

    def read(
        self, pattern: Float[Tensor, "batch head pos pos"], v: Float[Tensor, "batch head pos d_head"]
    ) -> Float[Tensor, "batch head pos d_head"]:
        """What the layer reads from the values through this pattern: linear in `v`."""
        return pattern @ v

    def mix(
        self,
        q: Float[Tensor, "batch head pos d_head"],
        k: Float[Tensor, "batch head pos d_head"],
        v: Float[Tensor, "batch head pos d_head"],
    ) -> Float[Tensor, "batch head pos d_head"]:
        """The fast path: equal to `read(pattern(q, k), v)`."""
        return self.read(self.pattern(q, k), v)

    def memory_width(self, d_head: int) -> int:
        """Numbers that decoding keeps of a position and head, beside its key: here those of the value."""
        return d_head

    def extend(
        self,
        q: Float[Tensor, "batch head new d_head"],
        k: Float[Tensor, "batch head pos d_head"],
        v: Float[Tensor, "batch head new d_head"],
        memory: Float[Tensor, "batch head pos d_memory"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch head new d_head"]:
        """`mix` for new positions only, given what earlier calls left in memory. Decodes without gradients.

        Args:
            q, v: the new positions' queries and values.
            k: the keys of all positions, the new ones included.
            memory: what the variant keeps of each position, `memory_width` numbers wide; the new positions' rows are
                written here.
            at: the position of each sequence's one new token, where they differ; keys and memory beyond it are not
                yet written and are not read. By default the new positions are the last ones.
        """
        remember(memory, v, at)
        return self.pattern(q, k, at) @ memory

    def mixing_matrix(self, pattern: Float[Tensor, "batch head pos pos"]) -> Float[Tensor, "batch head pos pos"]:
        """The matrix that `read` applies to the values: the pattern itself, or for ChaCAL the resolvent."""
        identity = torch.eye(pattern.shape[-1], dtype=pattern.dtype, device=pattern.device)
        return self.read(pattern, identity.expand_as(pattern))

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings)
