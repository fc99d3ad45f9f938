"""Path mass: how a head's row divides between the true ancestors, hop by hop, and everything else.

Shows: for the matrix that a layer really applies to its values (for ChaCAL the resolvent), or for what it would apply
at another γ, the share of each row on the ancestor 1, 2, 3, … hops up; their sum is the mass on the gold chain. Does
not show: what is read there, paths across layers (see `rollout`), or that the model needs them. Control: other
examples' truth (`mismatched`), re-initialised models (`untrained`), and attention drawn at random (`random_graph`),
which says what the shape of causal attention alone is worth: much, where chains are long and sequences short.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph
from workbench.instruments.attention.attention_graph import needs, why_not
from workbench.instruments.attention.resolvent import resolvent
from workbench.measurement import Measurement
from workbench.tasks import Truth

__all__ = ["CONTROLS", "REST", "measure", "needs", "why_not"]

CONTROLS = ("mismatched", "untrained", "random_graph")
REST = ("further", "chain", "own", "elsewhere")
"""What follows the hops on the dim `hop`: gold beyond them, all gold together, the query's own position, the rest."""


def measure(capture: Capture, *, n_hops: int | None = None, gamma: float | None = None) -> Measurement:
    """Shares of each row's mass: dims `layer`, `head`, `hop`, `example`.

    On the dim `hop`: 1, 2, …, then `further` (gold beyond these hops), `chain` (the sum of all of these: the mass on
    the gold chain), `own` (the query's own position) and `elsewhere`; `chain`, `own` and `elsewhere` sum to 1. A key
    that is an ancestor by several ways counts at the shortest. Rows are scaled to sum to 1, and averaged over
    positions of depth 1 or more; NaN for an example without any.

    Args:
        capture: with every layer's pattern.
        n_hops: how many hops to tell apart; by default as many as this batch's truth has (give it where batches
            differ).
        gamma: take every pattern's resolvent at this γ (Eq. 5), whatever the layer does; by default what it applies.

    Raises:
        ValueError: if n_hops is below 1 or γ not in [0, 1).
    """
    n_hops = attention_graph.n_hops_of(capture, n_hops)
    edges, layers = first_edges(capture.truth), range(capture.subject.n_layers)
    if gamma is None:
        mixing = (attention_graph.resolvent(capture, layer) for layer in layers)
    else:
        mixing = (resolvent(attention_graph.pattern(capture, layer), gamma) for layer in layers)
    values = np.stack([shares(matrix, edges, n_hops) for matrix in mixing])  # [layer, head, hop, batch]
    return Measurement(
        name="Path mass by hop",
        values=values,
        dims=("layer", "head", "hop", "example"),
        coords={"layer": layers, "hop": [*range(1, n_hops + 1), *REST]},
        units="share",
        settings={
            "model": capture.subject.name,
            "n_hops": n_hops,
            "gamma": "that of training" if gamma is None else gamma,
        },
        caption="Share of each query's mass on its true ancestor h hops up, over queries that have one; chain: on all "
        "of them. It says where a head looks, not what it reads there nor whether the model needs it.",
    )


def first_edges(truth: Truth) -> Int[Tensor, "edge 4"]:
    """Gold edges with each pair of positions once, at its fewest hops, and none from a position to itself."""
    edges = truth.edges[truth.edges[:, 2] != truth.edges[:, 3]]
    pairs, place = _distinct(edges[:, [0, 2, 3]])
    hop = torch.full((len(pairs),), torch.iinfo(torch.long).max).scatter_reduce(0, place, edges[:, 1], "amin")
    return torch.cat([pairs[:, :1], hop[:, None], pairs[:, 1:]], dim=1)


def _distinct(rows: Int[Tensor, "row column"]) -> tuple[Int[Tensor, "distinct column"], Int[Tensor, " row"]]:
    """Each row once, in order, and the index of each row among them.

    It is `unique(dim=0)` for rows of small numbers, and many times faster: each row becomes one number.
    """
    sizes = tuple((rows.amax(0) + 1).tolist()) if len(rows) else (1,) * rows.shape[1]
    codes, place = np.unique(np.ravel_multi_index(tuple(rows.T.numpy()), sizes), return_inverse=True)
    return torch.from_numpy(np.stack(np.unravel_index(codes, sizes), axis=-1)), torch.from_numpy(place)


def shares(
    matrix: Float[Tensor, "batch head query key"], edges: Int[Tensor, "edge 4"], n_hops: int
) -> Float[np.ndarray, "head hop batch"]:
    """How the rows of queries with a gold edge divide: by hop, then as in `REST`; NaN for an example without any."""
    matrix = matrix.cpu()
    batch, n_heads = matrix.shape[:2]
    example, hop, query, key = edges.unbind(-1)
    # The mass on the gold keys of each hop; hops beyond the last one told apart share a slot.
    slot = hop.clamp(max=n_hops + 1) - 1
    by_hop = torch.zeros(batch, n_hops + 1, n_heads, dtype=torch.float64)
    by_hop.index_put_((example, slot), matrix[example, :, query, key].double(), accumulate=True)
    # Of every query with a gold edge, the mass on itself and the mass in all.
    example, query = _distinct(edges[:, [0, 2]])[0].unbind(-1)
    own, total = torch.zeros(2, batch, n_heads, dtype=torch.float64)
    own.index_add_(0, example, matrix[example, :, query, query].double())
    total.index_add_(0, example, matrix.sum(-1, dtype=torch.float64)[example, :, query])
    chain = by_hop.sum(1)
    rest = torch.stack([chain, own, total - chain - own], dim=1)
    # Means over these queries.
    n_queries = torch.bincount(example, minlength=batch)
    return (torch.cat([by_hop, rest], dim=1) / n_queries[:, None, None]).permute(2, 1, 0).numpy()
