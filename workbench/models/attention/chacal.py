"""ChaCAL: attention as an adjacency matrix, all path lengths in one layer (Chain and Causal Attention, Eq. 5–7)."""

from __future__ import annotations

from typing import get_args

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from workbench.models.attention import base
from workbench.models.attention.chacal_blocks import Form, chacal_blocks


class ChacalAttention(base.Attention):
    """Y = (1−γ) A (I − γ A_s)⁻¹ V, with A the softmax pattern and A_s the same without its diagonal (Eq. 5).

    Written as a recurrence this is standard attention over *solved* values W: W_t = V_t + γ Σ_{i<t} A_ti W_i, and
    Y_t = (1−γ) Σ_{i≤t} A_ti W_i. So decoding keeps W where standard attention keeps V.

    The paper takes the diagonal out of the inverse "in practice"; then Eq. 5 and Eq. 7, (I − γ A_s)⁻¹ (1−γ) A V, are
    two different layers. `form` chooses; `diagonal=True` keeps the diagonal (A_s = A), where the two are equal.
    γ = 0 is standard attention. Rows of the resulting mixing matrix sum to less than 1.
    """

    name = "chacal"
    passes_constants = False

    class Settings(base.Settings):
        """Settings of `chacal`."""

        gamma: float = Field(0.9, ge=0, lt=1, description="weight of each further hop, in [0, 1)")
        form: Form = Field("eq5", description="eq5: A outside the inverse on the left; eq7: on the right")
        diagonal: bool = Field(False, description="keep the pattern's diagonal inside the inverse")

    @property
    def gamma(self) -> float:
        return self.settings.gamma

    def mix(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        s = self.settings
        return chacal_blocks(q, k, v, gamma=s.gamma, form=s.form, diagonal=s.diagonal)

    def read(self, pattern: Tensor, v: Tensor) -> Tensor:
        """Eq. 5 or 7 of any pattern; one edited to look ahead is no longer triangular, and is solved as it is."""
        if not bool(pattern.triu(1).any()):
            return self.extend(pattern, v, None)[0]
        dtype = torch.promote_types(v.dtype, torch.float32)
        A = pattern.to(dtype)
        inner = A if self.settings.diagonal else A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
        system = torch.eye(A.shape[-1], dtype=dtype, device=A.device) - self.gamma * inner
        if self.settings.form == "eq5":
            z = A @ torch.linalg.solve(system, v.to(dtype))
        else:
            z = torch.linalg.solve(system, A @ v.to(dtype))
        return ((1 - self.gamma) * z).to(v.dtype)

    def extend(self, pattern: Tensor, v: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
        return extend(pattern, v, memory, self.gamma, self.settings.form, self.settings.diagonal)


def extend(
    pattern: Float[Tensor, "batch head new pos"],
    v: Float[Tensor, "batch head new d_head"],
    memory: Float[Tensor, "batch head old d_memory"] | None,
    gamma: float,
    form: Form,
    diagonal: bool,
) -> tuple[Tensor, Tensor]:
    """One block of rows of the ChaCAL recurrence, after `old` earlier positions (see `Attention.extend`).

    Memory holds the solved values W for Eq. 5; for Eq. 7, whose recurrence is over the outputs, V beside Y.
    The triangular solve runs in float32 or better, outside autocast: there is no half-precision solve.
    """
    out_dtype = v.dtype
    solve_dtype = torch.promote_types(torch.promote_types(v.dtype, pattern.dtype), torch.float32)
    with torch.autocast(pattern.device.type, enabled=False):
        A, v = pattern.to(solve_dtype), v.to(solve_dtype)
        new = v.shape[-2]
        if memory is None:
            memory = v.new_zeros(*v.shape[:-2], 0, v.shape[-1] * (2 if form == "eq7" else 1))
        memory = memory.to(solve_dtype)
        A_old, A_new = A[..., :-new], A[..., -new:]
        if form == "eq5":
            solved = solve(A_new, v + gamma * (A_old @ memory), gamma, diagonal)
            memory = torch.cat([memory, solved], dim=-2)
            z = (1 - gamma) * (A @ memory)
        else:
            old_v, old_z = memory.chunk(2, dim=-1)
            direct = (1 - gamma) * (A @ torch.cat([old_v, v], dim=-2))
            z = solve(A_new, direct + gamma * (A_old @ old_z), gamma, diagonal)
            memory = torch.cat([memory, torch.cat([v, z], dim=-1)], dim=-2)
        return z.to(out_dtype), memory


def solve(
    A: Float[Tensor, "batch head new new"], rhs: Float[Tensor, "batch head new d"], gamma: float, diagonal: bool
) -> Float[Tensor, "batch head new d"]:
    """X with (I − γ A_s) X = rhs, A lower triangular; A_s is A, without its diagonal unless `diagonal`."""
    if not diagonal:
        return torch.linalg.solve_triangular(-gamma * A, rhs, upper=False, unitriangular=True)
    identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return torch.linalg.solve_triangular(identity - gamma * A, rhs, upper=False)


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
        raise ValueError("ChaCAL's gamma is a number, not a tensor: it is set, not learned")
    if not 0 <= gamma < 1:
        raise ValueError(f"ChaCAL needs 0 <= gamma < 1 for its series to converge, not {gamma}")
    if form not in get_args(Form):
        raise ValueError(f"unknown ChaCAL form {form!r}; there is: {', '.join(get_args(Form))}")
    return chacal_blocks(q, k, v, gamma=gamma, form=form, diagonal=diagonal)
