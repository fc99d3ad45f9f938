"""The resolvent of any pattern at any γ, exact or as a sum of paths up to some length (ChaCAL, §3, Eq. 5 and 7).

With A a pattern and A_s the same without its diagonal, Eq. 5 is the series Σ_h (1−γ) γ^(h−1) A A_s^(h−1): its h-th term
holds the paths of h steps. γ = 0 leaves the pattern. What a layer of a model really applies is
`attention_graph.resolvent`; this one asks what another γ, or a standard layer's pattern, would reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention_graph import check_place, pattern, position_names, unit_rows
from workbench.instruments.measurement import Measurement
from workbench.lookup import lookup
from workbench.models.attention import Attention
from workbench.models.attention.chacal import ChacalAttention

FORMS = {"eq5": "A outside the inverse, on the left", "eq7": "on the right"}


def resolvent(
    A: Float[Tensor, "*batch query key"],
    gamma: float,
    *,
    form: str = "eq5",
    n_hops: int | None = None,
    unit: bool = False,
) -> Float[Tensor, "*batch query key"]:
    """What ChaCAL would apply to its values through this pattern: (1−γ) A (I − γ A_s)⁻¹ for `eq5`.

    Args:
        A: patterns.
        gamma: γ in [0, 1).
        form: `eq5`, or `eq7` for (I − γ A_s)⁻¹ (1−γ) A.
        n_hops: keep the paths of so many steps at most; by default all of them, by an exact solve.
        unit: scale rows to sum to 1.

    Raises:
        ValueError: if γ is not in [0, 1), the form is unknown or n_hops is below 1.
    """
    layer = chacal(gamma, form)
    if n_hops is None:
        matrix = layer.mixing_matrix(A.to(torch.promote_types(A.dtype, torch.float32)))
    elif n_hops < 1:
        raise ValueError(f"n_hops must be at least 1, not {n_hops}")
    else:
        matrix = torch.stack(list(islice(hop_terms(layer, A), n_hops))).sum(0)
    return unit_rows(matrix) if unit else matrix


def matrices(capture: Capture, example: int, layer: int, head: int, *, gamma: float | None = None) -> Measurement:
    """What one head's pattern would reach at this γ, over one example: dims `matrix` (`resolvent`), `query`, `key`.

    Over the example's real tokens, labelled as by `attention_graph.matrices`; rows scaled to sum to 1.

    Args:
        capture: with the layer's pattern.
        example: which sequence of the capture.
        layer, head: whose pattern.
        gamma: take the resolvent at this γ (Eq. 5), whatever the layer does; by default what it applies.

    Raises:
        ValueError: if γ is not in [0, 1), or there is no such example, layer or head.
    """
    check_place(capture, example, layer, head)
    names = position_names(capture, example)
    A = pattern(capture, layer)[example : example + 1, head : head + 1, : len(names), : len(names)]
    if gamma is None:
        one = unit_rows(capture.subject.attention[layer].mixing_matrix(A))
    else:
        one = resolvent(A, gamma, unit=True)
    about = {"layer": layer, "head": head, "example": example, "gamma": "the model's" if gamma is None else gamma}
    return Measurement(
        name=f"Resolvent of layer {layer}, head {head}",
        values=np.asarray(one[0].cpu()),
        dims=("matrix", "query", "key"),
        coords={"matrix": ["resolvent"], "query": names, "key": names},
        units="share",
        settings={"model": capture.subject.name, **about},
        caption="How much of each key's value a query would read by all paths of the pattern, each further step "
        "weighing γ times as much (ChaCAL, Eq. 5). At another γ than its own no layer does this.",
    )


def chacal(gamma: float, form: str = "eq5") -> ChacalAttention:
    """The variant with these settings. Raises ValueError as `resolvent` does."""
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma must be in [0, 1) for the series to converge, not {gamma}")
    lookup(FORMS, form, "form of the resolvent")
    return ChacalAttention(gamma=gamma, form=form)


def hop_terms(layer: Attention, A: Float[Tensor, "*batch query key"]) -> Iterator[Float[Tensor, "*batch query key"]]:
    """What a layer reads by paths of 1, 2, 3, … steps; the terms' sum is its `mixing_matrix`.

    A variant that applies its pattern as it is has one term. ChaCAL has as many as there are positions, after which no
    path without its diagonal is left (with the diagonal: without end).
    """
    A = A.to(torch.promote_types(A.dtype, torch.float32))
    if not isinstance(layer, ChacalAttention):
        yield layer.mixing_matrix(A)
        return
    s = layer.settings
    inner = A if s.diagonal else A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
    term, length = (1 - s.gamma) * A, 0
    while s.diagonal or length < A.shape[-1]:
        yield term
        term, length = s.gamma * (term @ inner if s.form == "eq5" else inner @ term), length + 1


def path_length(layer: Attention, A: Float[Tensor, "batch head query key"]) -> Float[Tensor, "batch head query"]:
    """Mean number of steps behind what each query reads: Σ_h h m_h / Σ_h m_h, m_h the row sum of the h-th term.

    For ChaCAL exactly: Σ_h h γ^(h−1) A A_s^(h−1) = A (I − γ A_s)⁻², two solves where the resolvent takes one. 1 for a
    variant that applies its pattern as it is.
    """
    A = A.to(torch.promote_types(A.dtype, torch.float32))
    if not isinstance(layer, ChacalAttention):
        return torch.ones_like(A[..., 0])
    ones = torch.ones_like(A[..., :1])
    system = _system(layer, A)
    if layer.settings.form == "eq5":
        once = torch.linalg.solve(system, ones)
        return (A @ torch.linalg.solve(system, once) / (A @ once))[..., 0]
    once = torch.linalg.solve(system, A @ ones)
    return (torch.linalg.solve(system, once) / once)[..., 0]


def weighted_by_steps(
    layer: Attention, A: Float[Tensor, "batch head query key"]
) -> Float[Tensor, "batch head query key"]:
    """Σ_h h times the h-th of `hop_terms`: over the layer's mixing matrix, the mean number of steps of each entry."""
    A = A.to(torch.promote_types(A.dtype, torch.float32))
    mixing = layer.mixing_matrix(A)
    if not isinstance(layer, ChacalAttention):
        return mixing
    return torch.linalg.solve(_system(layer, A), mixing, left=layer.settings.form == "eq7")


def _system(layer: ChacalAttention, A: Float[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """I − γ A_s, which a variant with the diagonal takes with A in place of A_s."""
    inner = A if layer.settings.diagonal else A - torch.diag_embed(A.diagonal(dim1=-2, dim2=-1))
    return torch.eye(A.shape[-1], dtype=A.dtype, device=A.device) - layer.gamma * inner
