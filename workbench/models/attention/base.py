"""The base class of attention variants: how queries and keys become a pattern, and how a pattern reads values."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.util.strict_settings import Checked

if TYPE_CHECKING:
    from workbench.tasks import Task


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
    """Write the new positions' rows into memory: the last rows, or at `at` one row of each sequence."""
    if at is None:
        memory[..., memory.shape[-2] - new.shape[-2] :, :] = new
    else:
        memory[torch.arange(len(at), device=at.device), :, at] = new[:, :, 0].to(memory.dtype)


class Settings(Checked):
    """A variant's settings: plain, frozen, and strict about names."""


class Attention(nn.Module):
    """A causal attention variant, without the linear maps around it.

    Every variant has two paths that agree: `mix`, which training uses, and `pattern` then `read`, which inspection
    uses, so that an edit of the pattern really changes what is read; `extend` continues `mix` where a model decodes.
    The least that a new variant says is one of `scale_queries`, `scores`, `pattern` and `read`: the rest follows, if
    not fast; but one that reads otherwise than `pattern @ v` says itself what it reads by how many steps
    (`step_terms`). All tensors are `[batch, head, pos, d_head]`; patterns are `[batch, head, query, key]`. Where there
    are fewer queries than keys, the queries are the last ones, unless `at` says where the one query of each sequence
    is.
    """

    name: ClassVar[str]
    """The variant's entry in `ATTENTION`."""
    Settings: ClassVar[type[Settings]] = Settings
    passes_constants: ClassVar[bool] = False
    """Whether a constant added to every value is added unchanged to every output (rows of the mixing matrix sum to 1).
    Weight processing folds a value bias through attention only then; who does not say so keeps the bias."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings: Any = self.Settings(**settings)

    @classmethod
    def fit_to_task(cls, settings: Mapping[str, Any], task: Task) -> dict[str, Any]:
        """The settings of a layer in a new run; missing ones that the task determines are filled in.

        The run's config stores the result, so that the run does not depend on how they were determined.

        Raises:
            ValueError: if the settings ask for what the task does not have.
        """
        return dict(settings)

    @classmethod
    def for_model(cls, n_ctx: int, n_heads: int | None = None, **settings: Any) -> Self:
        """A variant for a layer of a model with this context length, on which defaults may depend.

        Each of its heads may have weights of its own; without a number of heads, all have the same.
        """
        return cls(**settings)

    def input_lengths(self, tokens: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"] | None:
        """The length of each query's input, of a variant whose queries depend on it (`scale_by_input`); else None.

        It must be causal: at a position it follows from the tokens up to there.
        """
        return None

    def scale_by_input(
        self, q: Float[Tensor, "batch head query d_head"], lengths: Int[Tensor, "batch query"] | None
    ) -> Float[Tensor, "batch head query d_head"]:
        """Queries scaled by the length of their input; by default unchanged.

        The model does this before anything else: all other methods take queries that are already scaled.
        """
        return q

    def scale_queries(
        self,
        q: Float[Tensor, "batch head query d_head"],
        k: Float[Tensor, "batch head key d_head"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch head query d_head"]:
        """Queries scaled for the scores, which may depend on their positions; by default unchanged."""
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
        """The attention pattern: by default softmax of the scores, each row a distribution over keys up to its query.

        A variant may have another, whose rows need not sum to 1. Inspection takes its pattern from here; scores that
        come from `self.scores` can be edited there, others cannot.
        """
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

    def check_paths(self, n_heads: int, d_head: int, length: int) -> None:
        """Raise ValueError if `mix` is not `pattern` then `read`: what is trained would be inspected as another layer.

        Both are computed in float64 from normal queries, keys and values, of a copy of the layer.
        """
        layer, generator = copy.deepcopy(self).to("cpu", torch.float64), torch.Generator().manual_seed(0)
        q, k, v = torch.randn(3, 1, n_heads, length, d_head, dtype=torch.float64, generator=generator)
        with torch.no_grad():
            fast, explicit = layer.mix(q, k, v), layer.read(layer.pattern(q, k), v)
        if not torch.allclose(fast, explicit, rtol=1e-6, atol=1e-6, equal_nan=True):
            raise ValueError(
                f"the two paths of the attention variant {self.name!r} must agree, mix(q, k, v) and "
                f"read(pattern(q, k), v): they differ by up to {(fast - explicit).abs().max().item():.2g}"
            )

    def memory_width(self, d_head: int) -> int:
        """How many numbers decoding keeps for each position and head beside the key: by default those of the value.

        A variant with a `read` of its own, and no `extend`, keeps the query too.
        """
        return d_head if self.takes_one_step else 2 * d_head

    def extend(
        self,
        q: Float[Tensor, "batch head new d_head"],
        k: Float[Tensor, "batch head pos d_head"],
        v: Float[Tensor, "batch head new d_head"],
        memory: Float[Tensor, "batch head pos d_memory"],
        at: Int[Tensor, " batch"] | None = None,
    ) -> Float[Tensor, "batch head new d_head"]:
        """`mix` for new positions only, given what earlier calls left in memory. Decodes without gradients.

        Where `read` is a variant's own, everything is read anew at each call: right, but slow.

        Args:
            q, v: the new positions' queries and values.
            k: the keys of all positions, the new ones included.
            memory: what the variant keeps of each position, `memory_width` numbers wide; the new positions' rows are
                written here.
            at: the position of each sequence's one new token, where they differ; keys and memory beyond it are not
                yet written and are not read. By default the new positions are the last ones.
        """
        if self.takes_one_step:
            remember(memory, v, at)
            return self.pattern(q, k, at) @ memory
        remember(memory, torch.cat([v, q], dim=-1), at)
        values, queries = memory.to(q.dtype).split([v.shape[-1], q.shape[-1]], dim=-1)
        whole = self.read(self.pattern(queries, k), values)
        return (
            whole[..., -q.shape[-2] :, :]
            if at is None
            else whole[torch.arange(len(at), device=at.device), :, at].unsqueeze(2)
        )

    def mixing_matrix(self, pattern: Float[Tensor, "batch head pos pos"]) -> Float[Tensor, "batch head pos pos"]:
        """The matrix that `read` applies to the values: the pattern itself, or for ChaCAL the resolvent."""
        if self.takes_one_step:
            return pattern
        identity = torch.eye(pattern.shape[-1], dtype=pattern.dtype, device=pattern.device)
        return self.read(pattern, identity.expand_as(pattern))

    def of_head(self, head: int) -> Attention:
        """The variant as one head has it: this very one, unless heads differ in how they read their patterns."""
        return self

    gamma: float | None = None
    """The weight of each further step beside the step before, where that is one number: ChaCAL's γ."""

    @property
    def how_it_reads(self) -> str:
        """What a layer of this variant does with its pattern, as a clause whose subject is the layer, for captions."""
        if self.takes_one_step:
            return "reads its pattern in one step"
        if self.why_no_steps:
            return "reads its pattern in a way of its own, and does not say by how many steps"
        return "adds up paths of several steps through its pattern, each number of steps with a weight of its own"

    @property
    def takes_one_step(self) -> bool:
        """Whether the layer reads the pattern times the values: true if the variant keeps the `read` of this class."""
        return type(self).read is Attention.read

    @property
    def why_no_steps(self) -> str | None:
        """The reason, in one line, why a layer's number of steps through its pattern is unknown; None if it is known.

        Only the variant itself can say this: a `read` that squares each entry of the pattern takes one step, and one
        that multiplies the pattern with itself takes two.
        """
        if self.takes_one_step:
            return None
        read_at = self._overridden_at("read")
        for method in ("step_terms", "weighted_by_steps", "path_length"):
            at = self._overridden_at(method)
            if at > read_at and (
                method == "step_terms" or getattr(type(self), method) is not getattr(Attention, method)
            ):
                return (
                    f"the attention variant {type(self).name!r} reads in a way of its own and does not say by how many "
                    f"steps (its class has `read` and no `{method}`)"
                )
        return None

    def _overridden_at(self, method: str) -> int:
        """How many classes above the variant's own a method is defined: 0 for the variant's own class."""
        return next(up for up, kind in enumerate(type(self).__mro__) if method in vars(kind))

    def step_terms(self, pattern: Float[Tensor, "*batch query key"]) -> Iterator[Float[Tensor, "*batch query key"]]:
        """What is read by paths of 1, 2, 3, … steps through the pattern; the terms' sum is `mixing_matrix`.

        A variant whose `read` is not `pattern @ v` overrides this. There may be terms without end, if they get ever
        smaller; such a variant overrides `weighted_by_steps` too.

        Raises:
            ValueError: if the variant does not say by how many steps it reads (see `why_no_steps`).
        """
        if self.why_no_steps:
            raise ValueError(self.why_no_steps)
        yield self.mixing_matrix(pattern)

    def weighted_by_steps(self, pattern: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
        """Σ_h h times the h-th of `step_terms`: over the mixing matrix, the mean number of steps of each entry.

        Raises:
            ValueError: if the variant does not say by how many steps it reads (see `why_no_steps`).
        """
        terms = (steps * term for steps, term in enumerate(self.step_terms(pattern), 1))
        return torch.stack(list(terms)).sum(0)

    def path_length(self, pattern: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query"]:
        """Mean number of steps behind what each query reads: Σ_h h m_h / Σ_h m_h, m_h the row sum of the h-th term.

        NaN where a query reads nothing.

        Raises:
            ValueError: if the variant does not say by how many steps it reads (see `why_no_steps`).
        """
        return self.weighted_by_steps(pattern).sum(-1) / self.mixing_matrix(pattern).sum(-1)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings)
