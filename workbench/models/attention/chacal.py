"""ChaCAL: attention as an adjacency matrix, all path lengths in one layer (the ChaCAL paper, §4)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import get_args

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from workbench.models.attention import base
from workbench.models.attention.chacal_blocks import chacal_blocks, default_block
from workbench.models.attention.chacal_rows import Form, Shape, solve_rows


class ChacalAttention(base.Attention):
    """Y = (1−γ) A (I − γ A_s)⁻¹ V, with A the softmax pattern and A_s the same without its diagonal (Eq. 5).

    Written as a recurrence this is standard attention over *solved* values W: W_t = V_t + γ Σ_{i<t} A_ti W_i, and
    Y_t = (1−γ) Σ_{i≤t} A_ti W_i. So decoding keeps W where standard attention keeps V.

    The paper takes the diagonal out of the inverse "in practice"; then Eq. 5 and Eq. 7, (I − γ A_s)⁻¹ (1−γ) A V, are
    two different layers. `form` chooses; `diagonal=True` keeps the diagonal (A_s = A), where the two are equal.
    γ = 0 is standard attention. Rows of the resulting mixing matrix sum to less than 1.
    """

    name = "chacal"

    class Settings(base.Settings):
        """Settings of `chacal`."""

        gamma: float = Field(0.9, ge=0, lt=1, description="weight of each further hop, in [0, 1)")
        form: Form = Field("eq5", description="eq5: A outside the inverse on the left; eq7: on the right")
        diagonal: bool = Field(False, description="keep the pattern's diagonal inside the inverse")

    @property
    def gamma(self) -> float:  # type: ignore[override]  # of other variants there is none
        return self.settings.gamma

    def weight(self, A: Tensor) -> float | Tensor:
        """γ as it multiplies a pattern `[…, head, query, key]`."""
        return self.gamma

    @property
    def how_it_reads(self) -> str:
        return (
            f"adds up paths of any number of steps through its pattern, each further step weighing γ = {self.gamma:g}"
        )

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s = self.settings
        return chacal_blocks(self.scale_queries(q, k), k, v, gamma=s.gamma, form=s.form, diagonal=s.diagonal)

    def read(self, pattern: Tensor, v: Tensor) -> Tensor:
        """Eq. 5 or 7 of any pattern; one edited to look ahead is no longer triangular, and is solved as it is.

        The solve runs in float32 or better, outside autocast: there is no half-precision solve.
        """
        s, dtype = self.settings, torch.promote_types(torch.promote_types(v.dtype, pattern.dtype), torch.float32)
        with torch.autocast(v.device.type, enabled=False):
            A, values = pattern.to(dtype), v.to(dtype)
            z = A @ self._solve(A, values) if s.form == "eq5" else self._solve(A, A @ values)
            return ((1 - self.weight(z)) * z).to(v.dtype)

    def mixing_matrix(self, pattern: Tensor) -> Tensor:
        """(1−γ) A (I − γ A_s)⁻¹, or (I − γ A_s)⁻¹ (1−γ) A: solved for A itself, where `read` of the identity has a
        product more.
        """
        A = _single(pattern)
        return self._solve(A, (1 - self.weight(A)) * A, left=self.settings.form == "eq7").to(pattern.dtype)

    def _solve(self, A: Tensor, rhs: Tensor, left: bool = True) -> Tensor:
        """X with (I − γ A_s) X = rhs; without `left`, X (I − γ A_s) = rhs."""
        s = self.settings
        # whether any matrix has an entry above its diagonal; a copy of all of them would take longer
        looks_ahead = bool(A.reshape(-1, *A.shape[-2:]).any(0).triu(1).any())
        # Causal and without its diagonal, −γ A_s is below the diagonal: the unit diagonal need not be written out.
        if not s.diagonal and not looks_ahead:
            return torch.linalg.solve_triangular(-self.weight(A) * A, rhs, upper=False, left=left, unitriangular=True)
        # Otherwise the system is written out: triangular with a diagonal of its own, or, if edited to look ahead, full.
        solve = torch.linalg.solve if looks_ahead else partial(torch.linalg.solve_triangular, upper=False)
        return solve(self._system(A), rhs, left=left)

    def _inner(self, A: Tensor) -> Tensor:
        """A_s, the pattern inside the inverse: without its diagonal, unless the settings keep it."""
        return A if self.settings.diagonal else A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))

    def _system(self, A: Tensor) -> Tensor:
        """I − γ A_s."""
        return torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) - self.weight(A) * self._inner(A)

    def step_terms(self, pattern: Tensor) -> Iterator[Tensor]:
        """(1−γ) γ^(h−1) A A_s^(h−1) for Eq. 5: as many terms as positions, after which no path is left; with the
        diagonal without end.
        """
        s, A = self.settings, _single(pattern)
        inner, gamma = self._inner(A), self.weight(A)
        term, length = (1 - gamma) * A, 0
        while s.diagonal or length < A.shape[-1]:
            yield term
            term, length = gamma * (term @ inner if s.form == "eq5" else inner @ term), length + 1

    def weighted_by_steps(self, pattern: Tensor) -> Tensor:
        """Exactly: Σ_h h γ^(h−1) A A_s^(h−1) = A (I − γ A_s)⁻², two solves where the mixing matrix takes one."""
        A = _single(pattern)
        return torch.linalg.solve(self._system(A), self.mixing_matrix(A), left=self.settings.form == "eq7")

    def path_length(self, pattern: Tensor) -> Tensor:
        """The mean number of steps behind each query, from row sums alone: each solve is for one vector."""
        A = _single(pattern)
        ones, system = torch.ones_like(A[..., :1]), self._system(A)
        if self.settings.form == "eq5":
            once = torch.linalg.solve(system, ones)
            return (A @ torch.linalg.solve(system, once) / (A @ once))[..., 0]
        once = torch.linalg.solve(system, A @ ones)
        return (torch.linalg.solve(system, once) / once)[..., 0]

    def memory_width(self, d_head: int) -> int:
        """The solved values W for Eq. 5; for Eq. 7, whose recurrence is over the outputs, V beside Y."""
        return d_head if self.settings.form == "eq5" else 2 * d_head

    def extend(self, q: Tensor, k: Tensor, v: Tensor, memory: Tensor, at: Tensor | None = None) -> Tensor:
        with torch.autocast(q.device.type, enabled=False):
            q, k, new = q.to(memory.dtype), k.to(memory.dtype), v.to(memory.dtype)
            n_new = v.shape[-2]
            if n_new == 1:
                return self._extend_by_one(q, k, new, memory, at).to(v.dtype)
            assert at is None, "sequences of different lengths go on by one token at a time"
            s = self.settings
            shape = Shape(s.gamma, s.form, s.diagonal, default_block(k.shape[-2]))
            q = self.scale_queries(q, k)
            q, k, new = (x.flatten(0, 1) for x in (q, k, new))
            # a view of memory, never a copy: its new rows are written through it
            flat = memory.view(-1, *memory.shape[-2:])
            if s.form == "eq5":
                z = solve_rows(q, k, new, flat, shape)
            else:
                values, outputs = flat.chunk(2, dim=-1)
                values[:, -n_new:] = new
                z = solve_rows(q, k, values, outputs, shape)
            return z.view_as(v).to(v.dtype)

    def _extend_by_one(self, q: Tensor, k: Tensor, v: Tensor, memory: Tensor, at: Tensor | None) -> Tensor:
        """One row of the recurrence, Eq. 8 for Eq. 7, at the cost of one row of standard attention."""
        s, A = self.settings, self.pattern(q, k, at)
        diagonal = A[..., -1:] if at is None else A.gather(-1, at.view(-1, 1, 1, 1).expand(*A.shape[:-1], 1))
        on_diagonal = 1 - s.gamma * diagonal if s.diagonal else 1
        if s.form == "eq5":
            base.remember(memory, torch.zeros_like(v), at)
            carried = A @ memory
            solved = (v + s.gamma * carried) / on_diagonal
            base.remember(memory, solved, at)
            return (1 - s.gamma) * (carried + diagonal * solved)
        base.remember(memory, torch.cat([v, torch.zeros_like(v)], dim=-1), at)
        direct, carried = (A @ memory).chunk(2, dim=-1)
        z = ((1 - s.gamma) * direct + s.gamma * carried) / on_diagonal
        base.remember(memory, torch.cat([v, z], dim=-1), at)
        return z


def _single(pattern: Tensor) -> Tensor:
    """The pattern in float32 or better: there is no half-precision solve."""
    return pattern.to(torch.promote_types(pattern.dtype, torch.float32))


def chacal_attention(
    q: Float[Tensor, "batch head pos d_head"],
    k: Float[Tensor, "batch head pos d_head"],
    v: Float[Tensor, "batch head pos d_head"],
    *,
    gamma: float = 0.9,
    form: Form = "eq5",
    diagonal: bool = False,
) -> Float[Tensor, "batch head pos d_head"]:
    """Causal ChaCAL attention; scores are q kᵀ / sqrt(d_head).

    Args:
        q, k, v: queries, keys and values.
        gamma: γ in [0, 1); 0 is standard attention.
        form: `"eq5"`, (1−γ) A (I − γ A_s)⁻¹ V, or `"eq7"`, (I − γ A_s)⁻¹ (1−γ) A V.
        diagonal: keep the diagonal of A inside the inverse.

    Raises:
        ValueError: if γ is not a number in [0, 1), the form is unknown, or the shapes do not fit one another.
    """
    base.check_shapes(q, k, v)
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"ChaCAL solves from the first position on: it needs as many queries as keys, not {q.shape[-2]} and "
            f"{k.shape[-2]} (a model decodes with a cache: see Decoder.generate)"
        )
    if isinstance(gamma, Tensor):
        raise ValueError("chacal_attention takes gamma as a number, not a tensor; `learned_blocks` takes one to learn")
    if not 0 <= gamma < 1:
        raise ValueError(f"ChaCAL needs 0 <= gamma < 1 for its series to converge, not {gamma}")
    if form not in get_args(Form):
        raise ValueError(f"unknown ChaCAL form {form!r}; there is: {', '.join(get_args(Form))}")
    return chacal_blocks(q, k, v, gamma=gamma, form=form, diagonal=diagonal)
