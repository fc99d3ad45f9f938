"""Edits of a forward pass: the model computes on from what was changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.tasks import Batch

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge

Edge = tuple[int, int, int]
"""An edge of attention: example, query position, key position."""


Hooks = list[tuple[str, Callable[[Tensor, Any], Tensor]]]
"""Hook names and what is done to the activation there, as TransformerLens takes them."""


@torch.no_grad()
def cut_edges(
    model: TransformerBridge,
    batch: Batch,
    layer: int | None,
    edges: Sequence[Edge] | Int[Tensor, "edge 3"],
    *,
    head: int | None = None,
    renormalise: bool = False,
) -> Float[Tensor, "batch pos class"]:
    """The logits when some queries may not read some keys: these entries of the attention pattern are 0.

    The pattern is edited before the values are read, so that a ChaCAL layer solves the edited graph: every path over
    the edge is gone.

    Args:
        model: the hooked model.
        batch: what to run on.
        layer: of which layer; None for every layer.
        edges: (example, query, key) of each entry; none leaves the model as it is.
        head: of which head; None for every head.
        renormalise: give what is cut to the row's other keys, in proportion; by default it is lost.

    Raises:
        ValueError: if there is no such layer, head, example or position, or a key comes after its query.
    """
    with model.hooks(fwd_hooks=cutting(model, batch, layer, edges, head=head, renormalise=renormalise)):
        logits: Tensor = model(batch.tokens)
    return logits


def cutting(
    model: TransformerBridge,
    batch: Batch,
    layer: int | None,
    edges: Sequence[Edge] | Int[Tensor, "edge 3"],
    *,
    head: int | None = None,
    renormalise: bool = False,
) -> Hooks:
    """The hooks by which `cut_edges` does so; arguments and errors are the same."""
    check_head(model, layer, head)
    rows = torch.as_tensor(edges, dtype=torch.long).reshape(-1, 3)
    n, n_pos = batch.tokens.shape
    wrong = rows[_outside(rows, n, n_pos)]
    if len(wrong):
        edge = tuple(wrong[0].tolist())
        raise ValueError(f"there is no edge {edge} in {n} examples of {n_pos} positions, whose keys come up to queries")
    edit = partial(
        _cut, rows=rows, heads=slice(None) if head is None else slice(head, head + 1), renormalise=renormalise
    )
    layers = range(model.cfg.n_layers) if layer is None else [layer]
    return [(f"blocks.{at}.attn.hook_pattern", edit) for at in layers]


def check_head(model: TransformerBridge, layer: int | None, head: int | None) -> None:
    """Raise ValueError if the model has no such layer or head; None is every one."""
    n_layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
    if layer is not None and not 0 <= layer < n_layers:
        raise ValueError(f"there is no layer {layer}; the model has {n_layers}, from 0")
    if head is not None and not 0 <= head < n_heads:
        raise ValueError(f"there is no head {head}; the model has {n_heads}, from 0")


def _outside(rows: Int[Tensor, "edge 3"], n: int, n_pos: int) -> Tensor:
    example, query, key = rows.unbind(-1)
    return (example < 0) | (example >= n) | (key < 0) | (key > query) | (query >= n_pos)


def _cut(
    pattern: Float[Tensor, "batch head query key"], hook: Any, rows: Tensor, heads: slice, renormalise: bool
) -> Float[Tensor, "batch head query key"]:
    """A copy of the pattern without these edges."""
    example, query, key = rows.to(pattern.device).unbind(-1)
    edited = pattern.clone()
    edited[:, heads][example, :, query, key] = 0  # the slice is a view
    if renormalise:
        before, after = pattern.sum(-1, keepdim=True), edited.sum(-1, keepdim=True)
        edited = edited * torch.where((after == before) | (after == 0), 1.0, before / after)
    return edited
