"""The graph of a model: who writes to the residual, who reads from it, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, cast

import torch
from jaxtyping import Bool
from torch import Tensor

from workbench.models import AnyHooked

QKV = ("q", "k", "v")
INPUT, LOGITS = "input", "logits"


@dataclass(frozen=True)
class Graph:
    """Writers and readers of the residual stream, which is the sum of all that was written.

    Names are those of edge attribution patching (Syed et al. 2023): `input` writes the embedding with its position,
    `a0.h1` is head 1 of layer 0, `m0` the MLP of layer 0; a head reads through `a0.h1<q>`, `<k>` and `<v>`, an MLP as
    `m0`, and `logits` reads the residual at the end. An edge leads from a writer to every reader after it.

    Heads that share their keys and values (grouped queries) share the readers too: `a0.g1<k>` reads the keys of group 1
    of layer 0, for all of its heads. Without MLPs (attention-only models) there are no `m0`.

    Attributes:
        n_layers, n_heads: the model's.
        n_groups: heads of keys and values, where they are fewer than those of queries.
        has_mlps: whether layers have MLPs.
    """

    n_layers: int
    n_heads: int
    n_groups: int | None = None
    has_mlps: bool = True

    @classmethod
    def of(cls, model: AnyHooked) -> Graph:
        cfg = cast(Any, model.cfg)
        n_heads, n_groups = int(cfg.n_heads), getattr(cfg, "n_key_value_heads", None)
        return _same(
            cls(
                int(cfg.n_layers),
                n_heads,
                None if n_groups in (None, n_heads) else int(n_groups),
                not getattr(cfg, "attn_only", False),
            )
        )

    def n_readers(self, part: str) -> int:
        """How many readers of a layer read a part (`q`, `k`, `v`, or `m` of the MLP)."""
        if part == "m":
            return int(self.has_mlps)
        return self.n_heads if part == "q" or self.n_groups is None else self.n_groups

    @property
    def per_layer(self) -> tuple[int, int]:
        """How many writers and readers a layer has."""
        return self.n_heads + self.has_mlps, sum(self.n_readers(part) for part in (*QKV, "m"))

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """In the order in which they write."""
        names: list[str] = []
        for layer in range(self.n_layers):
            names += [f"a{layer}.h{head}" for head in range(self.n_heads)]
            names += [f"m{layer}"] if self.has_mlps else []
        return (INPUT, *names)

    @cached_property
    def readers(self) -> tuple[str, ...]:
        """In the order in which they read: of a layer all queries, all keys, all values, then the MLP."""
        names: list[str] = []
        for layer in range(self.n_layers):
            for part in QKV:
                kind = "h" if part == "q" or self.n_groups is None else "g"
                names += [f"a{layer}.{kind}{number}<{part}>" for number in range(self.n_readers(part))]
            names += [f"m{layer}"] if self.has_mlps else []
        return (*names, LOGITS)

    def writers_before(self, layer: int, *, mlp: bool) -> int:
        """How many writers come before the attention of a layer, or before its MLP."""
        return 1 + layer * self.per_layer[0] + self.n_heads * mlp

    @cached_property
    def edges(self) -> Bool[Tensor, "writer reader"]:
        """Which reader comes after which writer."""
        before = []
        for layer in range(self.n_layers):
            before += [self.writers_before(layer, mlp=False)] * sum(map(self.n_readers, QKV))
            before += [self.writers_before(layer, mlp=True)] * self.has_mlps
        before.append(len(self.writers))
        return torch.arange(len(self.writers))[:, None] < torch.tensor(before)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of every edge, `input->a0.h0<q>`, in the order of `edges.nonzero()`."""
        return tuple(f"{self.writers[w]}->{self.readers[r]}" for w, r in self.edges.nonzero().tolist())

    @property
    def n_edges(self) -> int:
        return int(self.edges.sum())

    def columns(self, layer: int, part: str) -> slice:
        """The columns of `edges` of a layer's queries, keys or values (`q`, `k`, `v`), of its MLP (`m`), of the logits.

        The logits' are those of `part="logits"`, whatever the layer.
        """
        if part == LOGITS:
            return slice(len(self.readers) - 1, len(self.readers))
        parts = (*QKV, "m")
        start = layer * self.per_layer[1] + sum(map(self.n_readers, parts[: parts.index(part)]))
        return slice(start, start + self.n_readers(part))

    def nodes_of(self, reader: str) -> tuple[str, ...]:
        """The writers that a reader belongs to: `a0.h1` of `a0.h1<q>`, all heads of the group of `a0.g1<k>`.

        The logits are no writer, but themselves.
        """
        return self._nodes.get(reader, (reader,))

    @cached_property
    def _nodes(self) -> dict[str, tuple[str, ...]]:
        size = 1 if self.n_groups is None else self.n_heads // self.n_groups
        found = {}
        for reader in self.readers:
            node, (layer, of_group, group) = reader.split("<")[0], reader.split("<")[0].partition(".g")
            several = [f"{layer}.h{int(group) * size + head}" for head in range(size)] if of_group else [node]
            found[reader] = tuple(several)
        return found

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def numbers_of(self, names: Sequence[str]) -> list[int]:
        """The places of these edges in `names`. Raises ValueError if there is no such edge."""
        try:
            return [self._numbers[name] for name in names]
        except KeyError as error:
            raise ValueError(
                f"the graph has no edge {error.args[0]!r}; edges are such as {self.names[0]} and {self.names[-1]}, of "
                f"{self.n_layers} layers of {self.n_heads} heads"
            ) from None

    @cached_property
    def readers_of(self) -> dict[str, list[int]]:
        """Node -> the places of its readers in `readers`: those of a group belong to each of its heads."""
        found: dict[str, list[int]] = {}
        for number, reader in enumerate(self.readers):
            for node in self.nodes_of(reader):
                found.setdefault(node, []).append(number)
        return found

    def mask(self, names: Sequence[str]) -> Bool[Tensor, "writer reader"]:
        """The edges of these names.

        Raises:
            ValueError: if there is no such edge.
        """
        chosen = torch.zeros(self.n_edges, dtype=torch.bool)
        chosen[self.numbers_of(names)] = True
        return torch.zeros_like(self.edges).masked_scatter_(self.edges, chosen)


@lru_cache(maxsize=16)
def _same(graph: Graph) -> Graph:
    """One graph for all models of a shape: to name its edges takes a while."""
    return graph
