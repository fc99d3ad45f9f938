"""Resolvent of any pattern at any γ, and where its paths of 1, 2, … steps arrive (ChaCAL, §4, Eq. 5 and 7).

With A a pattern and A_s the same without its diagonal, Eq. 5 is the series Σ_h (1−γ) γ^(h−1) A A_s^(h−1): its h-th term
holds the paths of h steps. γ = 0 leaves the pattern. A ChaCAL layer solves it in `models.attention.chacal`; what a
layer of a model applies is measured by `attention_graph.resolvent`. Here is what its pattern would reach at another γ,
or a standard layer's pattern at any.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention.attention_graph import check_place, pattern, unit_rows
from workbench.instruments.residual.projection import position_names
from workbench.measurement import Measurement
from workbench.models.attention.chacal import ChacalAttention
from workbench.util.lookup import lookup

FORMS = {"eq5": "A outside the inverse, on the left", "eq7": "on the right"}


def resolvent(A: Float[Tensor, "*batch query key"], gamma: float) -> Float[Tensor, "*batch query key"]:
    """What ChaCAL would apply to its values through these patterns: (1−γ) A (I − γ A_s)⁻¹, rows scaled to sum to 1.

    Raises:
        ValueError: if γ is not in [0, 1).
    """
    return unit_rows(chacal(gamma).mixing_matrix(A))


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
        matrix = unit_rows(capture.subject.attention[layer].of_head(head).mixing_matrix(A))
    else:
        matrix = resolvent(A, gamma)
    about = {"layer": layer, "head": head, "example": example, "gamma": "that of training" if gamma is None else gamma}
    return Measurement(
        name=f"Resolvent of layer {layer}, head {head}",
        values=np.asarray(matrix[0].cpu()),
        dims=("matrix", "query", "key"),
        coords={"matrix": ["resolvent"], "query": names, "key": names},
        units="share",
        settings={"model": capture.subject.name, **about},
        caption="How much of each key's value a query would read by all paths of the pattern, each further step "
        "weighing γ times as much (ChaCAL, Eq. 5). At another γ than its own no layer does this.",
    )


def steps(capture: Capture, example: int, layer: int, head: int, *, n_hops: int) -> Measurement:
    """Where the paths of 1, 2, … steps through one head's pattern arrive: dims `hop`, `query`, `key`.

    The h-th matrix is A A_s^(h−1), the h-th term of Eq. 5 without its weight (1−γ) γ^(h−1): of a query's row the sum
    is what is left of it after so many steps. A ChaCAL layer's own form and diagonal are taken, else Eq. 5's.

    Args:
        capture: with the layer's pattern.
        example: which sequence of the capture.
        layer, head: whose pattern.
        n_hops: steps at most.

    Raises:
        ValueError: if n_hops is below 1, or there is no such example, layer or head.
    """
    check_place(capture, example, layer, head)
    if n_hops < 1:
        raise ValueError(f"n_hops must be at least 1, not {n_hops}")
    names, own = position_names(capture, example), followed(capture, layer, head)
    kept, key = capture.computed, ("steps", example, layer, head, n_hops)
    if key not in kept:
        A = pattern(capture, layer)[example, head, : len(names), : len(names)]
        half = chacal(0.5, own.form, diagonal=own.diagonal)  # its weights are exact in binary
        terms = [term * 2.0**hop for hop, term in enumerate(islice(half.step_terms(A), n_hops), 1)]
        kept[key] = torch.stack(terms + [torch.zeros_like(A)] * (n_hops - len(terms)))
    return Measurement(
        name=f"Steps through layer {layer}, head {head}",
        values=kept[key].detach().cpu().numpy().copy(),
        dims=("hop", "query", "key"),
        coords={"hop": list(range(1, n_hops + 1)), "query": names, "key": names},
        units="share",
        settings={"model": capture.subject.name, "layer": layer, "head": head, "example": example, "form": own.form},
        caption="Where a query arrives by paths of so many steps through the pattern, before γ weighs them. What a row "
        "lacks of 1 was lost on positions that read themselves, which the paper's form leaves out after one step.",
    )


def followed(capture: Capture, layer: int, head: int) -> ChacalAttention.Settings:
    """The settings by which paths through a head's pattern are followed: of a ChaCAL layer its own.

    Of any other, Eq. 5 with γ = 0: it takes one step.
    """
    variant = capture.subject.attention[layer].of_head(head)
    return variant.settings if isinstance(variant, ChacalAttention) else ChacalAttention.Settings(gamma=0.0)


def chacal(gamma: float, form: str = "eq5", *, diagonal: bool = False) -> ChacalAttention:
    """A ChaCAL layer with this γ, form and diagonal. Raises ValueError if there is no such γ or form."""
    if not 0 <= gamma < 1:
        raise ValueError(f"gamma must be in [0, 1) for the series to converge, not {gamma}")
    lookup(FORMS, form, "form of the resolvent")
    return ChacalAttention(gamma=gamma, form=form, diagonal=diagonal)
