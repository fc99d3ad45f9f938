"""`cut_edges`: ablation of edges of the attention pattern, so that a query may not read a key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.interventions.edit import Head, Hooks, check_head, edited_logits, in_layers
from workbench.models import AnyHooked
from workbench.tasks import Batch

Edge = tuple[int, int, int]
"""An edge of attention: example, query position, key position."""


def cut_edges(
    model: AnyHooked,
    batch: Batch,
    layer: int | None,
    edges: Sequence[Edge] | Int[Tensor, "edge 3"],
    *,
    head: int | None = None,
    heads: Sequence[Head] | None = None,
    renormalise: bool = False,
) -> Float[Tensor, "batch pos class"]:
    """The logits when some queries may not read some keys: these entries of the attention pattern are 0.

    The pattern is edited before the values are read, so that a ChaCAL layer solves the edited graph: every path over
    the edge is gone.

    Args:
        model: the hooked model.
        batch: what to run on.
        layer: the layer to edit; None for every layer.
        edges: (example, query, key) of each entry; none leaves the model as it is.
        head: the head to edit; None for every head.
        heads: edit these heads (layer, head) only; given in place of `layer` and `head`.
        renormalise: give what is cut to the row's other keys, in proportion; by default it is lost.

    Raises:
        ValueError: if there is no such layer, head, example or position, or a key comes after its query.
    """
    hooks = cutting(model, batch, layer, edges, head=head, heads=heads, renormalise=renormalise)
    return edited_logits(model, batch.tokens, hooks)


def cutting(
    model: AnyHooked,
    batch: Batch,
    layer: int | None,
    edges: Sequence[Edge] | Int[Tensor, "edge 3"],
    *,
    head: int | None = None,
    heads: Sequence[Head] | None = None,
    renormalise: bool = False,
) -> Hooks:
    """The hooks with which `cut_edges` edits the pattern; arguments and errors are the same as there."""
    assert heads is None or (layer, head) == (None, None), "heads take the place of layer and head"
    check_head(model, layer, head)
    for each in heads or ():
        check_head(model, *each)
    rows = torch.as_tensor(edges, dtype=torch.long).reshape(-1, 3)
    n, n_pos = batch.tokens.shape
    example, query, key = rows.unbind(-1)
    wrong = (example < 0) | (example >= n) | (key < 0) | (key > query) | (query >= n_pos)
    if wrong.any():
        edge = tuple(rows[wrong][0].tolist())
        raise ValueError(f"there is no edge {edge} in {n} examples of {n_pos} positions, whose keys come up to queries")
    if heads is None:
        layers = range(model.cfg.n_layers) if layer is None else [layer]
        by_layer = {at: list(range(model.cfg.n_heads)) if head is None else [head] for at in layers}
    else:
        by_layer = in_layers(heads)
    return [
        (f"blocks.{at}.attn.hook_pattern", partial(_cut, rows=rows, heads=cut, renormalise=renormalise))
        for at, cut in by_layer.items()
    ]


def _cut(
    pattern: Float[Tensor, "batch head query key"], hook: Any, rows: Tensor, heads: list[int], renormalise: bool
) -> Float[Tensor, "batch head query key"]:
    """A copy of the pattern without these edges."""
    example, query, key = rows.to(pattern.device).unbind(-1)
    edited = pattern.clone()
    for head in heads:
        edited[example, head, query, key] = 0
    if renormalise:
        before, after = pattern.sum(-1, keepdim=True), edited.sum(-1, keepdim=True)
        edited = edited * torch.where((after == before) | (after == 0), 1.0, before / after)
    return edited
