"""`cut_edges`: ablation of edges of the attention pattern, so that a query may not read a key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.interventions.heads import Head, check_head, in_layers
from workbench.interventions.hooks import Hooks
from workbench.tasks import Batch

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

Edge = tuple[int, int, int]
"""An edge of attention: example, query position, key position."""


@torch.no_grad()
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
    with model.hooks(fwd_hooks=hooks):
        logits: Tensor = model(batch.tokens)
    return logits


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
    wrong = rows[_outside(rows, n, n_pos)]
    if len(wrong):
        edge = tuple(wrong[0].tolist())
        raise ValueError(f"there is no edge {edge} in {n} examples of {n_pos} positions, whose keys come up to queries")
    by_layer = _by_layer(model, layer, head) if heads is None else in_layers(heads)
    return [
        (f"blocks.{at}.attn.hook_pattern", partial(_cut, rows=rows, heads=own, renormalise=renormalise))
        for at, own in by_layer.items()
    ]


def _by_layer(model: AnyHooked, layer: int | None, head: int | None) -> dict[int, list[int]]:
    """Layer -> heads, of one layer and head; None stands for every one."""
    own = list(range(model.cfg.n_heads)) if head is None else [head]
    return {at: own for at in (range(model.cfg.n_layers) if layer is None else [layer])}


def _outside(rows: Int[Tensor, "edge 3"], n: int, n_pos: int) -> Tensor:
    example, query, key = rows.unbind(-1)
    return (example < 0) | (example >= n) | (key < 0) | (key > query) | (query >= n_pos)


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
