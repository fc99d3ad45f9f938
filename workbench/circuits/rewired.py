"""Runs in which every reader has a residual of its own: single edges carry what another run wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.circuits.comparison import INPUT as FIRST
from workbench.circuits.comparison import Comparison, activations, check_names
from workbench.circuits.direct import head_writes
from workbench.circuits.graph import LOGITS, QKV, Graph
from workbench.interventions import Hooks

CHECKED = 2  # pairs on which the graph is checked


@contextmanager
def own_inputs(model: Any) -> Iterator[None]:
    """Within this context each head's queries, keys and values, and each MLP, read a copy of the residual of their own.

    These are TransformerLens's `hook_q_input`, `hook_k_input`, `hook_v_input` (`[row, pos, head, d_model]`, the
    last two of a group where heads share their keys and values) and `hook_mlp_in`, all before the LayerNorm. The flags
    are put back afterwards.

    Raises:
        ValueError: if the model cannot give its readers inputs of their own.
    """
    flags = ("use_attn_in", "use_split_qkv_input", "use_hook_mlp_in")
    before = [bool(getattr(model.cfg, flag, False)) for flag in flags]
    if not hasattr(model, "set_use_split_qkv_input"):
        raise ValueError(f"the heads of a {type(model).__name__} cannot read inputs of their own, so it has no edges")
    try:
        _set_flags(model, False, True, True)
        yield
    except NotImplementedError as error:
        raise ValueError(f"this model's heads cannot read inputs of their own, so it has no edges: {error}") from None
    finally:
        _set_flags(model, *before)


def _set_flags(model: Any, attn_in: bool, split: bool, mlp_in: bool) -> None:
    """Set them, one of the first two at a time: they exclude each other."""
    model.set_use_split_qkv_input(False)
    model.set_use_attn_in(attn_in)
    model.set_use_split_qkv_input(split)
    model.set_use_hook_mlp_in(mlp_in)


def reader_hooks(graph: Graph) -> list[tuple[str, int, str]]:
    """The hook name of every kind of reader, its layer, and its part (`q`, `k`, `v`, `m`, `logits`)."""
    hooks = []
    for layer in range(graph.n_layers):
        hooks += [(f"blocks.{layer}.attn.hook_{part}_input", layer, part) for part in QKV]
        hooks += [(f"blocks.{layer}.hook_mlp_in", layer, "m")] if graph.has_mlps else []
    return [*hooks, (f"blocks.{graph.n_layers - 1}.hook_resid_post", graph.n_layers - 1, LOGITS)]


def writer_hooks(graph: Graph) -> list[str]:
    """The hook names from which everything that is written follows, in the order of the forward pass."""
    points = ("attn.hook_z", "hook_mlp_out") if graph.has_mlps else ("attn.hook_z",)
    return [FIRST, *(f"blocks.{layer}.{point}" for layer in range(graph.n_layers) for point in points)]


def as_writes(comparison: Comparison, name: str, activation: Tensor) -> Float[Tensor, "writer row pos d_model"]:
    """What is written, from one of `writer_hooks`: by the heads of a layer, or by one writer."""
    if name.endswith("hook_z"):
        return head_writes(comparison, int(name.split(".")[1]), activation)
    return activation[None]


@torch.no_grad()
def writes(comparison: Comparison, tokens: Int[Tensor, "row pos"]) -> Float[Tensor, "writer row pos d_model"]:
    """What every writer writes in a run without edits, in the graph's order.

    What heads of a layer share, the bias of their output, is constant and belongs to none.
    """
    names = writer_hooks(Graph.of(comparison.model))
    seen, _ = activations(comparison, tokens, names)
    return torch.cat([as_writes(comparison, name, seen[name]) for name in names])


class Rewired:
    """The hooks of a run in which some edges carry what was written elsewhere.

    A reader's residual is that of the run, and of every edge that is not kept it has `other` in place of what the
    writer writes in this run, edits before it included. LayerNorm is part of the reader: it is computed anew from the
    residual so changed, nothing is held.

    Args:
        comparison: the model.
        keep: which edges carry what this run writes, for all rows or `[row, writer, reader]`.
        other: what the others carry, `[writer, row, pos, d_model]`; a row dim of 1 is for all rows.
    """

    def __init__(
        self, comparison: Comparison, keep: Bool[Tensor, "*row writer reader"], other: Float[Tensor, "writer row pos d"]
    ) -> None:
        self.comparison, self.graph = comparison, Graph.of(comparison.model)
        cut = self.graph.edges.to(keep.device) & ~keep
        self.cut, self.other = cut.to(other.dtype), other
        self.missing: list[Tensor] = []  # of each writer so far: what is elsewhere less what it writes here

    def hooks(self) -> Hooks:
        names = writer_hooks(self.graph)
        check_names(self.comparison.model, [*names, *(name for name, _, _ in reader_hooks(self.graph))])
        write = [(name, partial(self._seen, name=name)) for name in names]
        read = [(name, partial(self._read, layer=layer, part=part)) for name, layer, part in reader_hooks(self.graph)]
        return [*write, *read]

    def _seen(self, activation: Tensor, hook: Any, *, name: str) -> Tensor:
        if name == FIRST:
            self.missing = []
        written = as_writes(self.comparison, name, activation)
        start = len(self.missing)
        self.missing += list(self.other[start : start + len(written)] - written)
        return activation

    def _read(self, residual: Tensor, hook: Any, *, layer: int, part: str) -> Tensor:
        cut = self.cut[..., : len(self.missing), self.graph.columns(layer, part)]
        if not cut.any():
            return residual
        missing = torch.stack(self.missing)
        if cut.ndim == 2:
            change = torch.einsum("wh,wrpd->rphd", cut, missing)
        else:
            change = torch.einsum("rwh,wrpd->rphd", cut, missing)
        return residual + (change if residual.ndim == 4 else change[:, :, 0])


@torch.no_grad()
def rewired_logits(
    comparison: Comparison,
    tokens: Int[Tensor, "row pos"],
    keep: Bool[Tensor, "*row writer reader"],
    other: Float[Tensor, "writer row pos d_model"],
) -> Float[Tensor, "row pos class"]:
    """The logits of a run in which the edges that are not kept carry what `other` has; see `Rewired`."""
    with own_inputs(comparison.model):
        return comparison.run(tokens, Rewired(comparison, keep.to(tokens.device), other).hooks())


@torch.no_grad()
def check_graph(comparison: Comparison) -> None:
    """See that the graph is the model's: what each reader reads is what all writers before it wrote, and a constant.

    Checked on the clean inputs of a few pairs. It is not so where what is written is scaled or normalised on its way to
    the residual, or where an MLP does not read the attention of its own layer.

    Raises:
        ValueError: if the model has another graph.
    """
    graph, readers = Graph.of(comparison.model), reader_hooks(Graph.of(comparison.model))
    tokens = comparison.pairs[:CHECKED].to(comparison.device).clean.tokens
    with own_inputs(comparison.model):
        seen, _ = activations(comparison, tokens, [*writer_hooks(graph), *(name for name, _, _ in readers)])
    written = torch.cat([as_writes(comparison, name, seen[name]) for name in writer_hooks(graph)])
    for name, layer, part in readers:
        before = graph.edges[:, graph.columns(layer, part)][:, 0]
        read = seen[name] if seen[name].ndim == 4 else seen[name][:, :, None]
        rest = read - written[before.to(written.device)].sum(0)[:, :, None]
        apart, scale = (rest - rest[:1, :1]).abs().max(), read.abs().max()
        if not bool(apart <= scale * torch.finfo(read.dtype).eps ** 0.5):
            raise ValueError(
                f"at {name} the residual is not the sum of what heads and MLPs wrote before: it is {float(apart):.2g} "
                "apart. Nodes of this model can be attributed (activation_patching, attribution_patching), edges cannot"
            )


__all__ = ["Rewired", "check_graph", "own_inputs", "reader_hooks", "rewired_logits", "writer_hooks", "writes"]
