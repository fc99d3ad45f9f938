"""Composition scores: how much a head's query, key or value reads of what a head of an earlier layer writes.

‖W_OV^a W^b‖ / (‖W_OV^a‖ ‖W^b‖), Frobenius norms, with W^b the later head's W_QKᵀ from the query's side (Q), from the
key's (K), or its W_OV (V): "A Mathematical Framework for Transformer Circuits" (Elhage et al., 2021). Shows: which
heads the weights could join into a path. Does not show: that they do on any input, nor what passes: norms, biases and
the MLPs between are left out. In a ChaCAL layer a path goes on through the same head within the layer; that is no
composition of maps, since values pass W_V and W_O once whatever the number of steps (see `token_circuits.reads`).
Control: untrained weights of the same shape; two random matrices of rank d_head in d_model dimensions score about
√(1 / d_model).
"""

from __future__ import annotations

import numpy as np
import torch

from workbench.capture import Subject
from workbench.instruments.weights.heads import HeadWeights, why_no_weights
from workbench.measurement import Measurement

CONTROLS = ("untrained",)
KINDS = ("Q", "K", "V")


def why_not(subject: Subject) -> str | None:
    """Why there are no scores, in one line; None if there are."""
    if subject.n_layers < 2:
        return "a model of one layer has no two heads of which one reads what the other writes"
    return why_no_weights(subject)


@torch.no_grad()
def measure(subject: Subject) -> Measurement:
    """Every composition score: dims `kind` (Q, K, V), `layer`, `head`, `of layer`, `of head`; the latter read.

    NaN where the second head is not in a later layer than the first.

    Raises:
        ValueError: if the model's maps are not known.
    """
    weights = HeadWeights.of(subject)
    n_layers, n_heads, d_model = weights.q.shape[:3]
    layers, heads, number = range(n_layers), range(n_heads), torch.arange(n_layers)
    earlier = (number[:, None] < number)[:, None, :, None]  # of [layer, head, of layer, of head]
    # Through the triangles of the outer factors, whose norms are theirs: nothing of d_model × d_model is made
    into, out = weights.circuit("OV")
    before, scores = torch.linalg.qr(into).R @ out, []
    for kind in KINDS:
        left, right = weights.circuit("OV" if kind == "V" else "QK")
        left, right = (right.mT, left.mT) if kind == "K" else (left, right)
        after = left @ torch.linalg.qr(right.mT).R.mT
        both = torch.einsum("lhid,mgdj->lhmgij", before, after).flatten(-2).norm(dim=-1)
        norms = before.flatten(-2).norm(dim=-1)[:, :, None, None] * after.flatten(-2).norm(dim=-1)
        scores.append(torch.where(earlier, both / torch.where(norms > 0, norms, torch.nan), torch.nan))
    return Measurement(
        name="Composition scores",
        values=torch.stack(scores).numpy(),
        dims=("kind", "layer", "head", "of layer", "of head"),
        coords={"kind": KINDS, "layer": layers, "head": heads, "of layer": layers, "of head": heads},
        units="share of the norms",
        settings={"model": subject.name, "random": float(np.sqrt(1 / d_model)), "d_model": d_model},
        caption="How much of what an earlier head writes a later one reads by its query, key or value, in the weights "
        f"alone; random weights have about {np.sqrt(1 / d_model):.2f}. It does not say that they do on any input.",
    )
