"""Graph measures: how far each head's attention reaches, how it gathers on few keys, and by how many steps it reads.

Shows, of each head: `_reach`, the share of earlier positions that can be reached by following edges of at least a
threshold; `largest key`, the share of all attention to earlier positions that goes to one key (1: a hub or sink);
`_gini`, how unequally keys receive it (0: all alike); `path length`, the mean number of steps behind what a query reads
(1 for a layer that applies its pattern as it is, more for ChaCAL; a variant says it itself). Does not show: whether the
edges are right (see `path_mass`), or that what they carry is used. Causal attention alone has high values: early keys
are open to more queries. Control: re-initialised models (`untrained`) and attention drawn at random (`random_graph`).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention.attention_graph import needs, pattern, unit_rows, why_no_pattern
from workbench.instruments.residual.projection import real_positions
from workbench.measurement import Measurement
from workbench.models.attention import Attention

__all__ = ["CONTROLS", "MEASURES", "measure", "needs", "why_not"]

CONTROLS = ("untrained", "random_graph")
MEASURES = {
    "reach": "share of earlier positions",
    "largest key": "share of attention received",
    "gini": "index in [0, 1]",
    "path length": "steps",
}
"""Each measure with its unit."""

why_not = why_no_pattern


def measure(capture: Capture, *, threshold: float = 0.1) -> Measurement:
    """Four measures of each head's graph on each example: dims `measure`, `layer`, `head`, `example`.

    All are of the pattern, its rows scaled to sum to 1 where a variant's do not (but for path length, where the scale
    of what is read in two steps beside one step is the variant's own), over the example's real positions; a position's
    attention to itself is no edge, but counts as a step where a layer reads it. Reach and path length are means over
    all positions but the first. NaN where an example has fewer than two positions or, for `largest key` and `_gini`, no
    attention to earlier ones; path length also where a layer's variant does not say by how many steps it reads, which
    the settings then tell under `undefined`. Units differ by measure: see `MEASURES`.

    Args:
        capture: with every layer's pattern.
        threshold: the smallest share of a row that counts as an edge, for `_reach`.

    Raises:
        ValueError: if the threshold is not in (0, 1].
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"the threshold must be in (0, 1], not {threshold}")
    real, layers = real_positions(capture), capture.subject.layers
    variants = capture.subject.attention
    values = np.stack([_of_layer(pattern(capture, i).cpu(), variants[i], real, threshold) for i in layers], axis=1)
    silent = {i: variants[i].why_no_steps for i in layers if variants[i].why_no_steps}
    heads, examples = range(values.shape[2]), range(len(real))
    return Measurement(
        name="Graph measures",
        values=values,
        dims=("measure", "layer", "head", "example"),
        coords={"measure": list(MEASURES), "layer": layers, "head": heads, "example": examples},
        units="see measure",
        settings={"model": capture.subject.name, "threshold": threshold, "units": MEASURES}
        | ({"undefined": {"path length": silent}} if silent else {}),
        caption="Reach: share of earlier positions reached over edges of at least the threshold. Largest key: share of "
        "all attention to earlier positions that one key receives; gini: how unequally keys receive it. Path length: "
        "mean number of steps behind what is read. None of them says whether the edges are right.",
    )


def _of_layer(
    A: Float[Tensor, "batch head query key"], attention: Attention, real: Bool[Tensor, "batch pos"], threshold: float
) -> Float[np.ndarray, "measure head batch"]:
    """The measures of one layer's heads, in the order of `MEASURES`."""
    A = torch.where((real[:, :, None] & real[:, None, :])[:, None], A, 0.0).double()
    later = real.clone()
    later[:, 0] = False  # the first position has no earlier one to reach
    shares = unit_rows(A)
    received = shares.tril(-1).sum(-2)
    steps = torch.full_like(A[..., 0], torch.nan) if attention.why_no_steps else attention.path_length(A)
    measures = [
        _mean_over(_reach(shares, threshold), later[:, None]),
        received.amax(-1) / received.sum(-1),
        _gini(received, real),
        _mean_over(steps, later[:, None] & steps.isfinite()),
    ]
    return torch.stack(measures).transpose(1, 2).numpy()


def _reach(A: Float[Tensor, "batch head pos pos"], threshold: float) -> Float[Tensor, "batch head pos"]:
    """The share of earlier positions that each position reaches along edges of at least the threshold; 0 for the first.

    (I − B/2)⁻¹ with B the edges as 0 and 1 is Σ_h (B/2)^h, positive exactly where there is a path: sums of positive
    numbers that stay within float64 (paths of n steps weigh 2⁻ⁿ, and (3/2)ⁿ bounds the sum) for n up to 1000.
    """
    edges = (A.tril(-1) >= threshold).double()
    identity = torch.eye(A.shape[-1], dtype=torch.float64).expand_as(edges)
    paths = torch.linalg.solve_triangular(-edges / 2, identity, upper=False, unitriangular=True)
    reached = (paths.tril(-1) > 0).sum(-1)
    return reached / torch.arange(A.shape[-1]).clamp(min=1)


def _gini(received: Float[Tensor, "batch head key"], real: Bool[Tensor, "batch key"]) -> Float[Tensor, "batch head"]:
    """Gini coefficient over the real keys but the last, which no later position can read; others must be 0.

    G = Σ_r (2r − n − 1) x_r / (n Σ x), with x in rising order and r the rank from 1.
    """
    n = (real.sum(-1) - 1)[:, None, None]
    ordered = received.sort(-1).values  # what is not a key is 0, and so comes first
    rank = torch.arange(1, received.shape[-1] + 1) - (received.shape[-1] - n)
    return ((2 * rank - n - 1) * ordered).sum(-1) / (n[..., 0] * ordered.sum(-1))


def _mean_over(
    values: Float[Tensor, "batch head pos"], chosen: Bool[Tensor, "#batch #head pos"]
) -> Float[Tensor, "batch head"]:
    """Mean over the chosen positions; NaN where there is none."""
    return torch.where(chosen, values, 0.0).sum(-1) / chosen.sum(-1)
