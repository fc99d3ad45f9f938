"""Strongest paths: the paths over which most of what a query gets from a key comes, within one layer and across layers.

Shows: the paths with the largest product of edge weights, exactly. Within one pattern a path takes any number of steps
(what ChaCAL adds up); across layers one step a layer, through one head or straight up the residual stream, and the
weights of all paths sum to the rollout. Does not show: that the model uses the path; where rows are spread out, the
strongest path may be a small part of the whole, so read its weight. Control: the strongest paths to positions that are
no ancestors, or those of attention drawn at random (`random_graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np
from jaxtyping import Float
from torch import Tensor

from workbench.measurement import Measurement


@dataclass(frozen=True)
class Path:
    """One way from a query to a key.

    Attributes:
        positions: from the query to the key, both included.
        weights: of each edge.
        layers: of each edge, from the last layer down; 0 throughout within one layer.
        heads: of each edge; None where it is the residual stream, and within one layer, where there is one pattern.
        weight: their product; within one layer times γ for each step after the first.
    """

    positions: tuple[int, ...]
    weights: tuple[float, ...] = ()
    layers: tuple[int, ...] = ()
    heads: tuple[int | None, ...] = ()
    weight: float = 1.0

    def extended(self, key: int, edge: float, layer: int = 0, head: int | None = None, factor: float = 1.0) -> Path:
        """The same path with one more edge."""
        return Path(
            (*self.positions, key),
            (*self.weights, edge),
            (*self.layers, layer),
            (*self.heads, head),
            self.weight * edge * factor,
        )


def table(paths: Sequence[Path], names: Sequence[str], model: str) -> Measurement:
    """Paths as a table to keep: dims `path` (1: the strongest), its weight; `labels` say which way it leads.

    Args:
        paths: strongest first.
        names: of the positions (`projection.position_names`).
        model: whose attention it is.
    """
    return Measurement(
        name="Strongest paths",
        values=np.array([path.weight for path in paths], dtype=float),
        dims=("path",),
        coords={"path": range(1, len(paths) + 1)},
        units="product of its edges",
        settings={"model": model},
        labels=np.array([" → ".join(names[position] for position in path.positions) for path in paths], dtype=object),
        caption="The ways by which most of what a query gets from a key comes. That a path is strong does not show "
        "that the model uses it.",
    )


def within_layer(
    A: Float[Tensor, "query key"],
    query: int,
    key: int,
    *,
    most: int = 5,
    longest: int | None = None,
    gamma: float = 1.0,
) -> list[Path]:
    """The strongest paths from a query back to an earlier key that follow one pattern for any number of steps.

    Staying on a position is no step. With a ChaCAL layer's γ the weight of a path, times 1 − γ, is its part in the
    layer's mixing matrix (ChaCAL, Eq. 5, but for the query's step onto itself).

    Args:
        A: one head's causal pattern on one example.
        query, key: the positions where paths begin and end.
        most: how many paths at most.
        longest: how many steps at most; by default any number.
        gamma: factor of each step after the first, in (0, 1].

    Returns the paths, strongest first; fewer than `most` where there are no more of positive weight.

    Raises:
        ValueError: if the positions are not in the pattern, the key is not before the query, or a number is out of
            range.
    """
    _check_within(A, query, key, most, longest, gamma)
    edges = A.detach().cpu().double().tril(-1).numpy()
    steps = min(longest or query, query - key)
    to_go = _best_within(edges, key, gamma, steps)

    def onward(path: Path) -> Iterator[Path]:
        here, factor = edges[path.positions[-1]], gamma if path.weights else 1.0
        return (path.extended(int(j), float(here[j]), factor=factor) for j in np.flatnonzero(here))

    def bound(path: Path) -> float:
        return path.weight * float(to_go[steps - len(path.weights)][path.positions[-1]])

    return _best_first(Path((query,)), onward, bound, lambda path: path.positions[-1] == key, most)


def across_layers(
    layers: Sequence[Float[Tensor, "head query key"]], query: int, key: int, *, most: int = 5, residual: float = 0.5
) -> list[Path]:
    """The strongest paths from a position's output to an input, one edge a layer, through any head or the residual.

    A head's edge weighs (1 − residual) / n_heads times its attention, the residual's edge `residual`: so the weights of
    all paths sum to the rollout of mean heads. With one averaged pattern a layer, `[1, query, key]`, all heads are one.

    Args:
        layers: what each layer applies to its values on one example, first layer first, rows summing to 1: patterns, or
            `attention_graph.resolvent`.
        query, key: the positions of output and input.
        most: how many paths at most.
        residual: share of every layer's output that comes straight from its input, in [0, 1].

    Returns the paths, strongest first; fewer than `most` where there are no more of positive weight.

    Raises:
        ValueError: if there is no layer, the key is after the query or outside, or a number is out of range.
    """
    _check_across(layers, query, key, most, residual)
    graphs = [(1 - residual) / len(A) * A.detach().cpu().double().numpy() for A in layers]
    to_go = _best_across(graphs, key, residual)

    def onward(path: Path) -> Iterator[Path]:
        layer, here = len(graphs) - 1 - len(path.weights), path.positions[-1]
        if residual:
            yield path.extended(here, residual, layer)
        for head, j in np.argwhere(graphs[layer][:, here]):
            yield path.extended(int(j), float(graphs[layer][head, here, j]), layer, int(head))

    def bound(path: Path) -> float:
        return path.weight * float(to_go[len(graphs) - len(path.weights)][path.positions[-1]])

    return _best_first(Path((query,)), onward, bound, lambda path: len(path.weights) == len(graphs), most)


def _best_within(edges: Float[np.ndarray, "query key"], key: int, gamma: float, steps: int) -> list[np.ndarray]:
    """From each position, the best product of a path to the key in at most 0, 1, 2, … steps."""
    to_go = [np.where(np.arange(len(edges)) == key, 1.0, 0.0)]
    for _ in range(steps):
        to_go.append(np.maximum(to_go[-1], gamma * (edges * to_go[-1]).max(-1)))
    return to_go


def _best_across(graphs: Sequence[Float[np.ndarray, "head query key"]], key: int, residual: float) -> list[np.ndarray]:
    """From each position, the best product of a path to the key through the first 0, 1, 2, … layers."""
    to_go = [np.where(np.arange(graphs[0].shape[-1]) == key, 1.0, 0.0)]
    for graph in graphs:
        to_go.append(np.maximum(residual * to_go[-1], (graph.max(0) * to_go[-1]).max(-1)))
    return to_go


def _best_first(
    start: Path,
    onward: Callable[[Path], Iterator[Path]],
    bound: Callable[[Path], float],
    arrived: Callable[[Path], bool],
    most: int,
) -> list[Path]:
    """Paths in the order of their weight, by best-first search.

    Since `bound` is exactly the best weight that a path can still reach, the first path to arrive is the strongest, the
    second the next strongest, and no path is followed that is weaker than all of them.
    """
    order = count()  # of paths with equal bounds the one seen first comes first
    waiting = [(-bound(start), next(order), start)]
    arrivals: list[Path] = []
    while waiting and len(arrivals) < most:
        # Take the path that can still become the strongest.
        _, _, path = heappop(waiting)
        if path.weights and arrived(path):
            arrivals.append(path)
            continue
        # Extend it by every edge from which the key can be reached.
        for longer in onward(path):
            best = bound(longer)
            if best > 0:
                heappush(waiting, (-best, next(order), longer))
    return arrivals


def _check_within(A: Tensor, query: int, key: int, most: int, longest: int | None, gamma: float) -> None:
    _check(A.shape[-1], query, key, most)
    if query == key:
        raise ValueError(f"a path within a layer leads to an earlier position, not from {query} to itself")
    if longest is not None and longest < 1:
        raise ValueError(f"longest must be at least 1, not {longest}")
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma must be in (0, 1], not {gamma}")


def _check_across(layers: Sequence[Tensor], query: int, key: int, most: int, residual: float) -> None:
    if not len(layers):
        raise ValueError("there is no layer to find paths through")
    _check(layers[0].shape[-1], query, key, most)
    if not 0 <= residual <= 1:
        raise ValueError(f"the residual's share must be in [0, 1], not {residual}")


def _check(n_pos: int, query: int, key: int, most: int) -> None:
    if not 0 <= key <= query < n_pos:
        raise ValueError(f"paths lead from a query back to a key among {n_pos} positions, not from {query} to {key}")
    if most < 1:
        raise ValueError(f"most must be at least 1, not {most}")
