"""Rollout: attention followed through all layers and the residual stream, as one matrix from output to input.

Abnar and Zuidema, "Quantifying attention flow in transformers" (2020), Eq. 1. Each layer becomes a graph: a share of
the residual goes straight up, the rest through what the layer applies to its values (for ChaCAL the resolvent), rows
summing to 1, averaged over heads; the layers' product says where each output's mass comes from. So a deep standard
model and one layer of ChaCAL give the same kind of matrix. Shows: the share of that mass on the ancestor 1, 2, 3, …
hops up. Does not show: what is moved, what the MLPs do, or which head matters: heads count alike, and the residual's
share is an assumption (½ in the paper). Control: `mismatched`, `untrained`, and `random_graph`.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention.attention_graph import (
    n_hops_of,
    needs,
    resolvent,
    unit_rows,
    why_not,
)
from workbench.instruments.attention.path_mass import REST, first_edges, shares
from workbench.instruments.residual.projection import position_names
from workbench.measurement import Measurement

__all__ = ["CONTROLS", "layer_graphs", "matrices", "measure", "needs", "rollout", "why_not"]

CONTROLS = ("mismatched", "untrained", "random_graph")

Heads = Literal["mean", "max"]


def measure(
    capture: Capture, *, n_hops: int | None = None, residual: float = 0.5, heads: Heads = "mean"
) -> Measurement:
    """Shares of each rollout row's mass: dims `hop` (as in `path_mass`), `example`.

    Averaged over positions of depth 1 or more; NaN for an example without any.

    Args:
        capture: with every layer's pattern.
        n_hops: how many hops to tell apart; by default as many as this batch's truth has (give it where batches
            differ).
        residual: share of every layer's output that comes straight from its input, in [0, 1].
        heads: how a layer's heads become one graph: their `mean`, or their `max`, with rows scaled to sum to 1.

    Raises:
        ValueError: if n_hops is below 1, the residual's share is not in [0, 1], or `heads` is neither.
    """
    n_hops = n_hops_of(capture, n_hops)
    values = shares(rollout(capture, residual=residual, heads=heads)[:, None], first_edges(capture.truth), n_hops)[0]
    return Measurement(
        name="Rollout mass by hop",
        values=values,
        dims=("hop", "example"),
        coords={"hop": [*range(1, n_hops + 1), *REST]},
        units="share",
        settings={"model": capture.subject.name, "n_hops": n_hops, "residual": residual, "heads": heads},
        caption="Share of what reaches each query's output, through all layers and the residual stream, that comes "
        "from its true ancestor h hops up. Heads count alike and the residual's share is assumed.",
    )


def rollout(capture: Capture, *, residual: float = 0.5, heads: Heads = "mean") -> Float[Tensor, "batch query key"]:
    """The product of the layers' graphs, last layer first; rows sum to 1. Arguments and errors as for `measure`."""
    layers = layer_graphs(capture, residual=residual, heads=heads)
    product = layers[0]
    for layer in layers[1:]:
        product = layer @ product
    return product


def layer_graphs(
    capture: Capture, *, residual: float = 0.5, heads: Heads = "mean"
) -> list[Float[Tensor, "batch query key"]]:
    """Each layer as a graph with rows that sum to 1: the residual's share of the identity, the rest of its attention.

    Arguments and errors as for `measure`.
    """
    if not 0 <= residual <= 1:
        raise ValueError(f"the residual's share must be in [0, 1], not {residual}")
    if heads not in ("mean", "max"):
        raise ValueError(f"heads are taken together by 'mean' or 'max', not {heads!r}")
    graphs = []
    for layer in range(capture.subject.n_layers):
        A = resolvent(capture, layer)
        joined = A.mean(1) if heads == "mean" else unit_rows(A.amax(1))
        identity = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        graphs.append(residual * identity + (1 - residual) * joined)
    return graphs


def matrices(capture: Capture, example: int, *, residual: float = 0.5, heads: Heads = "mean") -> Measurement:
    """The rollout of one example, in the form of `attention_graph.matrices`: dims `matrix` (`rollout`), `query`, `key`.

    Over the example's real tokens, labelled `position:word`. Arguments and errors as for `measure`.
    """
    names = position_names(capture, example)
    length = len(names)
    matrix = rollout(capture, residual=residual, heads=heads)[example, :length, :length]
    return Measurement(
        name="Attention through all layers",
        values=np.asarray(matrix.cpu())[None],
        dims=("matrix", "query", "key"),
        coords={"matrix": ["rollout"], "query": names, "key": names},
        units="share",
        settings={"model": capture.subject.name, "example": example, "residual": residual, "heads": heads},
        caption="How much of what reaches a query's output comes from each input, through all layers and the residual "
        "stream (rollout). Heads count alike and the residual's share is assumed.",
    )
