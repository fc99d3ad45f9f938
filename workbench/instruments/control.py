"""Nulls: the activations of one example beside the truth of another, and attention that is a graph drawn at random."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.capture import Capture
from workbench.tasks import Batch, Truth


def mismatched(capture: Capture, generator: torch.Generator) -> Capture:
    """The same activations and logits, each beside the tokens and truth of another example of equal length.

    What an instrument or mechanism scores on this it owes to the positions and the task, not to having worked out the
    example at hand. Examples are paired in a random cycle within each length, so none keeps its own truth; an example
    alone in its length is left out.
    """
    lengths = capture.subject.task.lengths(capture.batch.tokens)
    order = torch.randperm(len(lengths), generator=generator)
    rows, partners = [], []
    for length in lengths.unique():
        group = order[lengths[order] == length]
        if len(group) > 1:
            rows.append(group)
            partners.append(group.roll(1))
    none = torch.zeros(0, dtype=torch.long)
    own, other = torch.cat([none, *rows]), torch.cat([none, *partners])
    return replace(
        capture,
        activations={name: value[own.to(value.device)] for name, value in capture.activations.items()},
        batch=pick(capture.batch, other),
        given_truth=pick_truth(capture.truth, other, len(lengths)),
    )


def pick(batch: Batch, rows: Int[Tensor, " example"]) -> Batch:
    return Batch(batch.tokens[rows], batch.targets[rows], batch.loss_mask[rows], batch.head)


def pick_truth(truth: Truth, rows: Int[Tensor, " example"], n: int) -> Truth:
    """The truth of these rows of a batch of n, none of them twice, renumbered in the order given."""
    place = torch.full((n,), -1)
    place[rows] = torch.arange(len(rows))
    example = place[truth.edges[:, 0]]
    edges = torch.cat([example[:, None], truth.edges[:, 1:]], dim=1)[example >= 0]
    return Truth(edges, {name: label[rows] for name, label in truth.labels.items()})


Rows = Literal["drawn", "permuted"]


def random_graph(capture: Capture, generator: torch.Generator, rows: Rows = "drawn") -> Capture:
    """The same capture with each attention pattern replaced by a random causal graph.

    What an instrument scores on this is worth nothing: it comes from the shape of causal attention alone, and for a
    variant that adds up paths from adding them up.

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
    """Exponential draws over their sum are a flat Dirichlet."""
    draws = torch.empty(A.shape, dtype=torch.float64).exponential_(generator=generator).tril()
    return (draws / draws.sum(-1, keepdim=True)).to(A)


def _permuted(
    A: Float[Tensor, "batch head query key"], generator: torch.Generator
) -> Float[Tensor, "batch head query key"]:
    place = torch.arange(A.shape[-1])
    earlier = place < place[:, None]
    order = torch.where(earlier, torch.rand(A.shape, generator=generator), 1.0 + place).argsort(-1)
    return A.gather(-1, order.to(A.device))
