"""Parent read (`template_name`): one head attends most to the position that a gold edge leads to.

Scored per head. Does not show: what is read there, or how further hops are found. Controls: the edges of another
example (`mismatched`) and fresh weights (`untrained`). Causal test: without that edge in the head, a query's answer is
lost; without an edge to another position it stays.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

from workbench import interventions
from workbench.capture import Capture, Subject, sample_truth
from workbench.instruments.attention import attention_graph
from workbench.measurement import Measurement

CONTROLS = ("mismatched", "untrained")
needs = attention_graph.needs


def why_not(subject: Subject) -> str | None:
    """Why this claim cannot be tested on a model, in one line; None if it can."""
    return None if sample_truth(subject).n_hops else f"the task {subject.task.name} has no gold edges"


def score(capture: Capture) -> Measurement:
    """Share of queries whose gold key gets more attention than any other: dims `layer`, `head`, `example`."""
    n, n_pos = capture.batch.tokens.shape
    gold = capture.truth.adjacency(n, n_pos, hop=1)  # [batch, query, key]
    queries = gold.any(-1)[:, None]
    values = []
    for layer in range(capture.subject.n_layers):
        most = attention_graph.pattern(capture, layer).argmax(-1, keepdim=True)  # [batch, head, query, 1]
        right = gold[:, None].expand(-1, most.shape[1], -1, -1).gather(-1, most)[..., 0]
        values.append(((right & queries).sum(-1) / queries.sum(-1)).double().T.numpy())
    stacked = np.stack(values)
    return Measurement(
        name="Parent read",
        values=stacked,
        dims=("layer", "head", "example"),
        coords={"layer": range(stacked.shape[0]), "head": range(stacked.shape[1]), "example": range(n)},
        units="share",
        settings={"model": capture.subject.name},
        caption="Share of queries of which a key at a gold edge gets more of the head's row than any other position.",
    )


def causal(model: Any, subject: Subject, batch: Any, generator: torch.Generator, *, heads: Any = None) -> Measurement:
    """What becomes of one right answer of each example when an edge is cut: dims `edit`, `outcome`, `example`."""
    n, n_pos = batch.tokens.shape
    gold = subject.task.truth(batch.tokens).adjacency(n, n_pos, hop=1)
    before = interventions.cut_edges(model, batch, None, []).argmax(-1)
    targets = batch.targets if batch.targets.ndim == 2 else batch.targets.long().argmax(-1)
    right = (before == targets) & batch.loss_mask & gold.any(-1)
    query, tested = interventions.choose_one(right, generator)  # one query of each example, and whether there is one
    rows = torch.arange(n)
    key = gold[rows, query].long().argmax(-1)
    earlier = (torch.arange(n_pos) < query[:, None]) & ~gold[rows, query]
    other, has_other = interventions.choose_one(earlier, generator)
    values = np.full((2, 2, n), np.nan)
    for row, (at, made) in enumerate([(key, tested), (other, tested & has_other)]):
        edges = torch.stack([rows, query, at], dim=1)[made]
        after = interventions.cut_edges(model, batch, None, edges, heads=heads).argmax(-1)
        values[row] = torch.where(made, (after != before)[rows, query].double(), torch.nan).numpy()
    return Measurement(
        name="Parent read: the edge cut",
        values=values,
        dims=("edit", "outcome", "example"),
        coords={"edit": ("claimed", "elsewhere"), "outcome": ("as claimed", "changed"), "example": range(n)},
        units="share",
        settings={"model": subject.name},
        caption="Whether an answer is lost without its gold edge (claimed), or without another edge (elsewhere).",
    )


MECHANISMS = {"template_name": sys.modules[__name__]}  # a mechanism is a module with these functions
