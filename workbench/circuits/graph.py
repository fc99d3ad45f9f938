"""The graph of a model: who writes to the residual, who reads from it, and the edges between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Bool
from torch import Tensor

if TYPE_CHECKING:
    from workbench.models.hooked import AnyHooked

QKV = ("q", "k", "v")
INPUT, LOGITS = "input", "logits"


@dataclass(frozen=True)
class Graph:
    """Writers and readers of the residual stream, which is the sum of all that was written.

    Names are those of edge attribution patching (Syed et al. 2023): `input` writes the embedding with its position,
    `a0.h1` is head 1 of layer 0, `m0` the MLP of layer 0; a head reads through `a0.h1<q>`, `<k>` and `<v>`, an MLP as
    `m0`, and `logits` reads the residual at the end. An edge leads from a writer to every reader after it.

    Attributes:
        n_layers, n_heads: the model's.
    """

    n_layers: int
    n_heads: int

    @classmethod
    def of(cls, model: AnyHooked) -> Graph:
        cfg = cast(Any, model.cfg)
        return cls(int(cfg.n_layers), int(cfg.n_heads))

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """In the order in which they write."""
        layers = range(self.n_layers)
        each = ([*(f"a{layer}.h{head}" for head in range(self.n_heads)), f"m{layer}"] for layer in layers)
        return (INPUT, *(name for names in each for name in names))

    @cached_property
    def readers(self) -> tuple[str, ...]:
        """In the order in which they read: of a layer all queries, all keys, all values, then the MLP."""
        names: list[str] = []
        for layer in range(self.n_layers):
            names += [f"a{layer}.h{head}<{part}>" for part in QKV for head in range(self.n_heads)]
            names.append(f"m{layer}")
        return (*names, LOGITS)

    def writers_before(self, layer: int, *, mlp: bool) -> int:
        """How many writers come before the attention of a layer, or before its MLP."""
        return 1 + layer * (self.n_heads + 1) + self.n_heads * mlp

    @cached_property
    def edges(self) -> Bool[Tensor, "writer reader"]:
        """Which reader comes after which writer."""
        before = []
        for layer in range(self.n_layers):
            before += [self.writers_before(layer, mlp=False)] * (len(QKV) * self.n_heads)
            before.append(self.writers_before(layer, mlp=True))
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
        start = layer * (len(QKV) * self.n_heads + 1)
        if part == "m":
            start += len(QKV) * self.n_heads
            return slice(start, start + 1)
        start += QKV.index(part) * self.n_heads
        return slice(start, start + self.n_heads)

    def node_of(self, reader: str) -> str:
        """The writer that a reader belongs to: `a0.h1` of `a0.h1<q>`; the logits are no writer, but themselves."""
        return reader.split("<")[0]

    def mask(self, names: Sequence[str]) -> Bool[Tensor, "writer reader"]:
        """The edges of these names.

        Raises:
            ValueError: if there is no such edge.
        """
        place = {name: at for name, at in zip(self.names, self.edges.nonzero().tolist(), strict=True)}
        chosen = torch.zeros_like(self.edges)
        for name in names:
            if name not in place:
                raise ValueError(
                    f"the graph has no edge {name!r}; edges are such as {self.names[0]} and {self.names[-1]}, of "
                    f"{self.n_layers} layers of {self.n_heads} heads"
                )
            writer, reader = place[name]
            chosen[writer, reader] = True
        return chosen
