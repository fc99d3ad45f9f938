"""Chain following: one head's mixing row picks out the true ancestor h hops away, for every h at once (ChaCAL, §3).

Scored per head and hop: at a query with an ancestor h hops up, that ancestor gets more of the row than every position
that is no ancestor. The row is that of the matrix which the layer applies to the values (the pattern; for ChaCAL the
resolvent), and the query's own position is left aside, since the residual stream carries it anyway. It does not show
hops that several layers make together, nor what is read: a token that names the next position lets a model stop one
position short of the root. Control: the chains of another example (`mismatched`).
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from workbench.capture import Capture, Subject
from workbench.instruments import attention_graph
from workbench.instruments.measurement import Measurement
from workbench.mechanisms.base import sample_truth

CONTROLS = ("mismatched", "untrained")

needs = attention_graph.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on this model, in one line; None if it can."""
    if sample_truth(subject).n_hops < 2:
        return f"the task {subject.task.name} has no chains of two hops or more"
    return None


def score(capture: Capture, *, n_hops: int | None = None) -> Measurement:
    """Share of queries with an ancestor h hops up whose row picks it out: dims `layer`, `head`, `hop`, `example`.

    As many hops as asked for, or as this batch's truth has; NaN where an example has no ancestor that far.
    """
    n, n_pos = capture.batch.tokens.shape
    ancestors = capture.truth.adjacency(n, n_pos)
    others = ~ancestors & ~torch.eye(n_pos, dtype=torch.bool)
    hops = range(1, (n_hops or max(capture.truth.n_hops, 1)) + 1)
    layers = range(capture.subject.n_layers)
    by_layer = []
    for layer in layers:
        mixing = attention_graph.resolvent(capture, layer).cpu()
        rival = mixing.masked_fill(~others[:, None], -torch.inf).amax(-1)
        gold = [capture.truth.adjacency(n, n_pos, hop) for hop in hops]
        by_layer.append(np.stack([picked_out(mixing, rival, hop) for hop in gold], axis=1))
    values = np.stack(by_layer)
    return Measurement(
        name="Chain following",
        values=values,
        dims=("layer", "head", "hop", "example"),
        coords={"layer": layers, "head": range(values.shape[1]), "hop": hops, "example": range(n)},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of queries whose true ancestor h hops up gets more of the head's row than any position that is "
        "no ancestor. Hops that several layers make together do not count.",
    )


def picked_out(
    mixing: Float[Tensor, "batch head query key"],
    rival: Float[Tensor, "batch head query"],
    gold: Bool[Tensor, "batch query key"],
) -> np.ndarray:
    """`[head, batch]`: share of queries with a gold key at which the largest gold entry exceeds the rival."""
    best = mixing.masked_fill(~gold[:, None], -torch.inf).amax(-1)
    queries = gold.any(-1)[:, None]
    share = ((best > rival) & queries).sum(-1) / queries.sum(-1)
    return share.transpose(0, 1).double().numpy()
