"""Runs in which every reader has a residual of its own: single edges carry what another run wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from workbench.circuits.comparison import INPUT, Comparison, activations, check_names
from workbench.circuits.direct import head_writes
from workbench.circuits.graph import LOGITS, QKV, Graph
from workbench.interventions import Hooks
from workbench.tasks import Pairs

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


def _writer_hooks(graph: Graph) -> list[str]:
    """The hook names from which everything that is written follows, in the order of the forward pass."""
    points = ("attn.hook_z", "hook_mlp_out") if graph.has_mlps else ("attn.hook_z",)
    return [INPUT, *(f"blocks.{layer}.{point}" for layer in range(graph.n_layers) for point in points)]


def _as_writes(comparison: Comparison, name: str, activation: Tensor) -> Float[Tensor, "writer row pos d_model"]:
    """What is written, from one of `_writer_hooks`: by the heads of a layer, or by one writer."""
    if name.endswith("hook_z"):
        return head_writes(comparison, int(name.split(".")[1]), activation)
    return activation[None]


@torch.no_grad()
def writes(comparison: Comparison, tokens: Int[Tensor, "row pos"]) -> Float[Tensor, "writer row pos d_model"]:
    """What every writer writes in a run without edits, in the graph's order.

    What heads of a layer share, the bias of their output, is constant and belongs to none.
    """
    names = _writer_hooks(Graph.of(comparison.model))
    seen = activations(comparison, tokens, names)
    return torch.cat([_as_writes(comparison, name, seen[name]) for name in names])


class _Rewired:
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
        self.missing = other[:0]  # of each writer: what is elsewhere less what it writes here; of `seen` writers so far
        self.seen = 0

    def hooks(self) -> Hooks:
        names = _writer_hooks(self.graph)
        check_names(self.comparison.model, [*names, *(name for name, _, _ in reader_hooks(self.graph))])
        write = [(name, partial(self._seen, name=name)) for name in names]
        read = [(name, partial(self._read, layer=layer, part=part)) for name, layer, part in reader_hooks(self.graph)]
        return [*write, *read]

    def _seen(self, activation: Tensor, hook: Any, *, name: str) -> Tensor:
        written = _as_writes(self.comparison, name, activation)
        if name == INPUT:
            self.missing, self.seen = written.new_empty(len(self.other), *written.shape[1:]), 0
        now = slice(self.seen, self.seen + len(written))
        torch.sub(self.other[now], written, out=self.missing[now])
        self.seen = now.stop
        return activation

    def _read(self, residual: Tensor, hook: Any, *, layer: int, part: str) -> Tensor:
        cut, missing = self.cut[..., : self.seen, self.graph.columns(layer, part)], self.missing[: self.seen]
        if not cut.any():
            return residual
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
    """The logits of a run in which the edges that are not kept carry what `other` has; see `_Rewired`."""
    with own_inputs(comparison.model):
        return comparison.run(tokens, _Rewired(comparison, keep.to(tokens.device), other).hooks())


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
        seen = activations(comparison, tokens, [*_writer_hooks(graph), *(name for name, _, _ in readers)])
    written = torch.cat([_as_writes(comparison, name, seen[name]) for name in _writer_hooks(graph)])
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


Outside = Literal["patch", "mean", "resample"]
IN_WORDS = {
    "patch": "what they carry in the corrupted run",
    "mean": "their mean over corrupted runs",
    "resample": "what they carry in another pair's corrupted run",
}


@dataclass(frozen=True)
class Ablation:
    """What the edges outside a circuit carry.

    Attributes:
        outside: `patch`, what their writer wrote in the pair's corrupted run; `mean`, its mean at that position over
            the corrupted runs of all pairs that have a token there; `resample`, what it wrote in another pair's
            corrupted run, drawn at random among those that are at least as long.
        generator: draws the other pairs of `resample`.
    """

    outside: Outside = "patch"
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if self.outside not in get_args(Outside):
            raise ValueError(f"unknown ablation {self.outside!r}; there is: {', '.join(get_args(Outside))}")
        if self.outside == "resample" and self.generator is None:
            raise ValueError("resample ablation draws other pairs: give it a generator")


@torch.no_grad()
def written_outside(
    comparison: Comparison, ablation: Ablation
) -> Iterator[tuple[slice, Pairs, Float[Tensor, "writer pair pos d_model"]]]:
    """The pairs in parts, and what the edges outside a circuit carry there.

    Raises:
        ValueError: if there is no other pair to resample.
    """
    mean = _mean_writes(comparison) if ablation.outside == "mean" else None
    order = _other_pairs(comparison.pairs, ablation.generator) if ablation.outside == "resample" else None
    for where, part in comparison.parts():
        tokens = part.corrupted.tokens
        if order is not None:
            tokens = comparison.pairs.corrupted.tokens[order[where]].to(comparison.device)
        yield where, part, writes(comparison, tokens) if mean is None else mean


def _other_pairs(pairs: Pairs, generator: torch.Generator | None) -> Int[Tensor, " pair"]:
    """For each pair the next in a random order whose corrupted run is as long as its clean one, or the longest other.

    What a shorter one writes at its padding is nothing that the model writes at a token.
    """
    n = len(pairs)
    if n < 2:
        raise ValueError("resample ablation needs at least two pairs")
    place = torch.empty(n, dtype=torch.long).scatter_(0, torch.randperm(n, generator=generator), torch.arange(n))
    needed, lengths = (pairs.real(side).sum(-1).cpu() for side in (pairs.clean, pairs.corrupted))
    itself = torch.eye(n, dtype=torch.bool)
    longest = lengths.expand(n, n).masked_fill(itself, 0).amax(1)
    unfit = itself | (lengths < torch.minimum(needed, longest)[:, None])
    return ((place - place[:, None]) % n).masked_fill(unfit, n).argmin(1)


def _mean_writes(comparison: Comparison) -> Float[Tensor, "writer 1 pos d_model"]:
    """The mean of every write at each position over the corrupted runs that have a token there."""
    total: Tensor | float = 0.0
    count: Tensor | float = 0.0
    for _, part in comparison.parts():
        real = part.real(part.corrupted)
        total = total + torch.where(real[..., None], writes(comparison, part.corrupted.tokens), 0.0).sum(1)
        count = count + real.sum(0)
    assert isinstance(total, Tensor) and isinstance(count, Tensor)
    return (total / count.clamp(min=1)[:, None])[:, None]  # where no run has a token, none has an answer either
