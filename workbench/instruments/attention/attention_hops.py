"""Attention hop by hop: the share of A^h's mass that lies on the gold edges h hops away.

Shows: whether following a head's pattern h times leads to the true h-th ancestor (ChaCAL, §4.1: A^h holds the paths of
length h). Does not show: that the layer really takes h steps (its variant says whether it does), or what is read.
Control: the same score against the gold edges of other examples (`mismatched`).
"""

from __future__ import annotations

import numpy as np

from workbench.capture import Capture
from workbench.instruments.attention.attention_graph import mass_on, n_hops_of, needs, pattern, unit_rows, why_not
from workbench.measurement import Measurement

__all__ = ["CONTROLS", "measure", "needs", "why_not"]

CONTROLS = ("mismatched", "untrained", "random_graph")


def measure(capture: Capture, *, n_hops: int | None = None) -> Measurement:
    """Share of A^h's mass on hop-h gold edges: dims `layer`, `head`, `hop`, `example`.

    Averaged over the queries that have a gold edge of that hop. A keeps its diagonal: a root that attends to itself
    stays where it is.

    Args:
        capture: with every layer's pattern.
        n_hops: how many powers; by default as many hops as this batch's truth has (give it where batches differ).

    Raises:
        ValueError: if n_hops is below 1.
    """
    n, n_pos = capture.batch.tokens.shape
    hops = range(1, max(n_hops_of(capture, n_hops), 1) + 1)
    layers = capture.subject.layers
    by_layer = []
    for layer in layers:
        A = power = unit_rows(pattern(capture, layer))
        by_hop = []
        for hop in hops:
            by_hop.append(mass_on(power, capture.truth.adjacency(n, n_pos, hop)).cpu().numpy())
            power = power @ A
        by_layer.append(np.stack(by_hop, axis=1))
    values = np.stack(by_layer)
    return Measurement(
        name="Attention powers on gold hops",
        values=values.astype(float),
        dims=("layer", "head", "hop", "example"),
        coords={"layer": layers, "hop": hops},
        units="share",
        settings={"model": capture.subject.name, "n_hops": len(hops)},
        caption="Share of the mass of A^h on the true ancestor h hops away, over queries that have one. It follows "
        "one head's pattern h times, whether the layer itself takes several steps or one.",
    )
