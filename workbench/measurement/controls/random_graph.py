"""The control `random_graph`: attention that is a causal graph drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from workbench.capture import Capture
from workbench.measurement.controls.base import Control

Rows = Literal["drawn", "permuted"]


def random_graph(capture: Capture, generator: torch.Generator, rows: Rows = "drawn") -> Capture:
    """The same capture with each attention pattern replaced by a random causal graph.

    A score on this comes from the shape of causal attention alone, and for a variant that adds up paths from adding
    them up: it is the chance level.

    Args:
        capture: with the attention patterns to replace.
        generator: the only source of chance.
        rows: `drawn`: each row uniform over all ways to share 1 among the keys up to its query (a flat Dirichlet),
            so that on average it attends uniformly; `permuted`: each row's own numbers in random order among the
            earlier keys, as sharp as they were, with what it gives to its own position left there.

    Raises:
        ValueError: if `rows` is neither.
    """
    if rows not in ("drawn", "permuted"):
        raise ValueError(f"rows of a random graph are 'drawn' or 'permuted', not {rows!r}")
    make = _drawn if rows == "drawn" else _permuted
    patterns = [name for name in capture.activations if name.endswith("attn.hook_pattern")]
    replaced = {name: make(capture[name], generator) for name in patterns}
    return replace(capture, activations={**capture.activations, **replaced})


def _drawn(
    A: Float[Tensor, "batch head query key"], generator: torch.Generator
) -> Float[Tensor, "batch head query key"]:
    """Random causal rows that sum to 1, from a flat Dirichlet: exponential draws divided by their sum."""
    draws = torch.empty(A.shape, dtype=torch.float64).exponential_(generator=generator).tril()
    return (draws / draws.sum(-1, keepdim=True)).to(A)


def _permuted(
    A: Float[Tensor, "batch head query key"], generator: torch.Generator
) -> Float[Tensor, "batch head query key"]:
    place = torch.arange(A.shape[-1])
    earlier = place < place[:, None]
    order = torch.where(earlier, torch.rand(A.shape, generator=generator), 1.0 + place).argsort(-1)
    return A.gather(-1, order.to(A.device))


CONTROL = Control("random graph", "random graph", random_graph)
