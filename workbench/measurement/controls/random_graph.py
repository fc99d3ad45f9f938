"""The control `random_graph`: attention that is a causal graph drawn at random."""

from __future__ import annotations

from dataclasses import replace

import torch

from workbench.capture import Capture
from workbench.measurement.controls.base import Control


def random_graph(capture: Capture, generator: torch.Generator) -> Capture:
    """The same capture with each attention pattern replaced by a random causal graph.

    Each row is uniform over all ways to share 1 among the keys up to its query (a flat Dirichlet), so that on average
    it attends uniformly. A score on this comes from the shape of causal attention alone, and for a variant that adds up
    paths from adding them up: it is the chance level.
    """
    replaced = {}
    for name in capture.activations:
        if name.endswith("attn.hook_pattern"):
            A = capture[name]  # [batch, head, query, key]
            draws = torch.empty(A.shape, dtype=torch.float64).exponential_(generator=generator).tril()
            replaced[name] = (draws / draws.sum(-1, keepdim=True)).to(A)
    return replace(capture, activations={**capture.activations, **replaced})


CONTROL = Control("random graph", "random graph", random_graph)
