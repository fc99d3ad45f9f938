"""Flow: how much can be carried from each input to one output, if every edge carries at most its attention.

Abnar and Zuidema, "Quantifying attention flow in transformers" (2020), §3: the maximum flow on the layered graph of
`rollout.layer_graphs`, from an output down to one input at a time. Shows: which inputs an output is connected to
by wide paths, all ways counted; rollout lets many narrow paths add up where flow is stopped by the narrowest place.
Does not show: a share (the flows to all inputs sum to more than 1), or anything that rollout does not: it rests on the
same assumptions. On a single layer it equals rollout.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import maximum_flow

from workbench.capture import Capture
from workbench.instruments.attention.rollout import Heads, layer_graphs

SCALE = 2**30  # scipy counts in int32; a row sums to 1, so no flow exceeds it


def flow(
    capture: Capture, example: int, query: int, *, residual: float = 0.5, heads: Heads = "mean"
) -> Float[np.ndarray, " key"]:
    """Maximum flow from one position's output to each input, in units of the output's own capacity, 1.

    Capacities are whole multiples of 2⁻³⁰, so that a flow is exact to about 10⁻⁹ for every edge of its narrowest cut.
    One maximum flow for each key up to the query: seconds at a length of 128 and three layers.

    Args:
        capture: with every layer's pattern.
        example: which sequence.
        query: the output's position.
        residual, heads: as for `rollout.measure`.

    Raises:
        ValueError: if there is no such example or position, or as `rollout.measure`.
    """
    n, n_pos = capture.batch.tokens.shape
    if not 0 <= example < n or not 0 <= query < n_pos:
        raise ValueError(f"there is no position {query} of example {example}; it is {n} examples of {n_pos} positions")
    graphs = [graph[example].cpu().double().numpy() for graph in layer_graphs(capture, residual=residual, heads=heads)]
    rows, columns, capacities = [], [], []  # of nodes `layer · n_pos + position`, inputs first, edges from a layer down
    for layer, graph in enumerate(graphs):
        start, end = np.nonzero(graph)
        rows.append((layer + 1) * n_pos + start)
        columns.append(layer * n_pos + end)
        capacities.append(np.rint(graph[start, end] * SCALE))
    outputs = len(graphs) * n_pos
    edges = np.concatenate(capacities).astype(np.int32), (np.concatenate(rows), np.concatenate(columns))
    network = csr_array(coo_array(edges, shape=(outputs + n_pos, outputs + n_pos)))
    values = np.zeros(n_pos)
    for key in range(query + 1):
        values[key] = maximum_flow(network, outputs + query, key).flow_value / SCALE
    return values
