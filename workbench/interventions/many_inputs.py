"""Edits of many examples at once: edges are cut, and residuals hold other values. Causal tests are made of these.

Each example has one answer that is tested, and the rest of the pass runs on what it finds (TransformerLens hooks).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.capture import visit
from workbench.interventions.edit_protocol import Head, Hooks, check_head, edited_logits, heads_at, in_layers, put
from workbench.models import AnyHooked
from workbench.models.facts import EditReachesNothingError
from workbench.tasks import Batch

Edge = tuple[int, int, int]
"""An edge of attention: example, query position, key position."""


def cut_edges(
    model: AnyHooked,
    batch: Batch,
    layer: int | None,
    edges: Sequence[Edge] | Int[Tensor, "edge 3"],
    *,
    heads: Sequence[Head] | None = None,
) -> Float[Tensor, "batch pos class"]:
    """The logits when some queries may not read some keys: these entries of the attention pattern are 0.

    The pattern is edited before the values are read, so that a ChaCAL layer solves the edited graph: every path over
    the edge is gone.

    Args:
        model: the hooked model.
        batch: what to run on.
        layer: the layer to edit, in every head; None for every layer.
        edges: (example, query, key) of each entry; none leaves the model as it is.
        heads: edit these heads (layer, head) only; given in place of `layer`.

    Raises:
        ValueError: if there is no such layer, head, example or position, or a key comes after its query.
    """
    assert heads is None or layer is None, "heads take the place of a layer"
    hooks = cutting(model, batch, edges, heads_at(model, layer, None) if heads is None else heads)
    return edited_logits(model, batch.tokens, hooks)


def cutting(
    model: AnyHooked, batch: Batch, edges: Sequence[Edge] | Int[Tensor, "edge 3"], heads: Sequence[Head]
) -> Hooks:
    """The hooks with which `cut_edges` edits the pattern in these heads; errors are the same as there."""
    for each in heads:
        check_head(model, *each)
    rows = torch.as_tensor(edges, dtype=torch.long).reshape(-1, 3)
    n, n_pos = batch.tokens.shape
    example, query, key = rows.unbind(-1)
    wrong = (example < 0) | (example >= n) | (key < 0) | (key > query) | (query >= n_pos)
    if wrong.any():
        edge = tuple(rows[wrong][0].tolist())
        raise ValueError(f"there is no edge {edge} in {n} examples of {n_pos} positions, whose keys come up to queries")

    def cut(pattern: Float[Tensor, "batch head query key"], hook: Any, in_heads: list[int]) -> Tensor:
        edited = pattern.clone()
        for each in in_heads:
            edited[example, each, query, key] = 0
        return edited

    return [(f"blocks.{at}.attn.hook_pattern", partial(cut, in_heads=each)) for at, each in in_layers(heads).items()]


@dataclass(frozen=True)
class SpanEdit:
    """An edit of many examples: other values at some positions of one hook point, and the answer that they predict.

    Attributes:
        point: hook name of a residual or of what is written to it.
        span: the positions that are edited; an example without any is not tested.
        values: what is put there, if it is in the span.
        predicted: the answer that the claim predicts; of an edit elsewhere, the one that it must not bring about.
    """

    point: str
    span: Bool[Tensor, "batch pos"]
    values: Float[Tensor, "batch pos d_model"]
    predicted: Int[Tensor, " batch"]

    def __call__(self, activation: Float[Tensor, "batch pos d_model"], hook: Any) -> Float[Tensor, "batch pos d_model"]:
        """Apply the edit, as a TransformerLens hook."""
        return put(activation, hook, where=self.span[..., None], values=self.values)

    def hooks(self, model: AnyHooked, tokens: Int[Tensor, "batch pos"]) -> Hooks:
        """The hooks that make the edit in a forward pass on these tokens."""
        return [(self.point, self)]


@dataclass(frozen=True)
class ReadBy:
    """An edit that only some heads read, in their keys and values; the residual itself stays as it is.

    Attributes:
        edit: the edit at a layer's `hook_resid_pre`, for each layer; all of them have the same span and prediction.
        heads: (layer, head) of those that read it.
    """

    edit: Callable[[int], SpanEdit]
    heads: Sequence[Head]

    @property
    def point(self) -> str:
        return ", ".join(f"blocks.{layer}.attn.hook_k and hook_v" for layer in in_layers(self.heads))

    @property
    def span(self) -> Bool[Tensor, "batch pos"]:
        return self.edit(self.heads[0][0]).span

    @property
    def predicted(self) -> Int[Tensor, " batch"]:
        return self.edit(self.heads[0][0]).predicted

    def hooks(self, model: AnyHooked, tokens: Int[Tensor, "batch pos"]) -> Hooks:
        """The hooks that give these heads, at the edited positions, the keys and values of an edited input.

        Raises:
            ValueError: if the model has no such head, or others share its keys and values and cannot be told apart.
        """
        hooks: Hooks = []
        for layer, readers in in_layers(self.heads).items():
            for head in readers:
                check_head(model, layer, head)
            edit, attention = self.edit(layer), f"blocks.{layer}.attn"
            # `[batch, pos, head, d_head]`: each head's own copies where heads share, but in bridges what they share
            of_head = "_of_head" if f"{attention}.hook_k_of_head" in model.hook_dict else ""
            points = [f"{attention}.hook_{part}{of_head}" for part in "kv"]
            captured: dict[str, Tensor] = {}
            with model.hooks(fwd_hooks=[(edit.point, edit)]):
                visit(model, tokens, points, captured.__setitem__)
            groups = torch.zeros(model.cfg.n_heads, dtype=torch.bool)
            groups[readers] = True
            groups = groups.unflatten(0, (captured[points[0]].shape[2], -1))  # of heads with the same keys and values
            if not torch.equal(groups.any(1), groups.all(1)):
                raise EditReachesNothingError(
                    f"heads of layer {layer} of this model share their keys and values, {groups.shape[1]} at a time: "
                    "an edit that only some of them read cannot be made"
                )
            where = self.span[:, :, None, None] & groups.all(1)[:, None]
            hooks += [(point, partial(put, values=captured[point], where=where)) for point in points]
        return hooks


def read_by(edit: Callable[[int], SpanEdit], heads: Sequence[Head] | None, n_layers: int) -> SpanEdit | ReadBy:
    """The edit of a layer's input, for these heads alone; without heads, the edit of the last layer's input."""
    return edit(n_layers - 1) if heads is None else ReadBy(edit, heads)


def activation(model: AnyHooked, tokens: Int[Tensor, "batch pos"], point: str) -> Float[Tensor, "batch pos d_model"]:
    """The activation of one hook point, as the model computes it without edits."""
    captured: dict[str, Tensor] = {}
    visit(model, tokens, [point], captured.__setitem__)
    return captured[point]


def exchanged(
    residual: Float[Tensor, "batch pos d_model"],
    basis: Float[Tensor, "token d_model"],
    first: Int[Tensor, " batch"],
    second: Int[Tensor, " batch"],
) -> Float[Tensor, "batch pos d_model"]:
    """A residual with its coordinates along two tokens' basis vectors exchanged.

    They are the least-squares coordinates α, β of the residual in the plane of the two vectors a, b; exchanging them
    adds (β − α)(a − b), and what is orthogonal to the plane stays. For vectors of one length the two inner products are
    exchanged too. Nothing happens where a and b lie on one line.
    """
    a, b = (basis.to(residual)[ids.to(residual.device)][:, None] for ids in (first, second))
    aa, bb, ab = ((u * v).sum(-1) for u, v in ((a, a), (b, b), (a, b)))
    on_a, on_b = (residual * a).sum(-1), (residual * b).sum(-1)
    determinant = aa * bb - ab**2
    line = determinant <= 1e-6 * aa * bb
    difference = ((aa + ab) * on_b - (bb + ab) * on_a) / torch.where(line, 1.0, determinant)
    return residual + torch.where(line, 0.0, difference)[..., None] * (a - b)
