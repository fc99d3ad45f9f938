"""Do two circuits agree? The overlap of circuits found on halves of the pairs, or in several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from workbench.circuits.circuit import Circuit, top_edges
from workbench.circuits.graph import Graph
from workbench.measurement import Measurement

Choose = Callable[[Measurement, Graph, int], Circuit]
SPLITS = 200  # random halves
UNITS = "share of edges"


def overlap(first: Circuit, second: Circuit) -> float:
    """The edges that both have, as a share of those that either has (Jaccard); 1 where both are empty.

    Raises:
        ValueError: if they are circuits of different graphs.
    """
    if first.graph != second.graph:
        raise ValueError("the circuits are of models with different numbers of layers or heads")
    one, other = set(first.names), set(second.names)
    return len(one & other) / len(one | other) if one | other else 1.0


def chance_overlap(n: int, graph: Graph) -> float:
    """The overlap of two circuits of n edges drawn at random, of their mean number of common edges."""
    common = n * n / graph.n_edges
    return common / (2 * n - common) if n else 1.0


def overlap_of_halves(
    scores: Measurement,
    graph: Graph,
    n: int,
    generator: torch.Generator,
    *,
    splits: int = SPLITS,
    choose: Choose = top_edges,
) -> Measurement:
    """The overlap of the circuits of n edges found on two halves of the pairs, mean over random halvings.

    `low` and `high` hold 95 % of the halvings: how far the edges chosen depend on which pairs there were. They are no
    interval of the mean, since halvings share pairs. `settings["chance"]` is what two random circuits have in common.

    Args:
        scores, graph: of every edge and pair: dims `edge`, `example`; the model's.
        n: how many edges.
        generator, splits: draws the halves; how many halvings.
        choose: chooses n edges by scores.

    Raises ValueError if there are fewer than two pairs, or no scores for each pair.
    """
    n_pairs = scores.values.shape[scores.axis("example")]
    if n_pairs < 2 or splits < 1:
        raise ValueError(f"halves need two pairs or more and a halving, not {n_pairs} and {splits}")
    values = [_overlap_of_two_halves(scores, graph, n, generator, choose) for _ in range(splits)]
    low, high = np.quantile(values, (0.025, 0.975))
    return Measurement(
        name="Overlap of circuits from two halves of the pairs",
        values=np.array(np.mean(values)),
        dims=(),
        coords={},
        units=UNITS,
        settings={**scores.settings, "edges": n, "splits": splits, "chance": chance_overlap(n, graph)},
        low=np.array(low),
        high=np.array(high),
        n=np.array(n_pairs),
        caption="The edges that both circuits have, as a share of those of either; the range holds 95 % of halvings.",
    )


def _overlap_of_two_halves(
    scores: Measurement, graph: Graph, n: int, generator: torch.Generator, choose: Choose
) -> float:
    n_pairs = scores.values.shape[scores.axis("example")]
    order = torch.randperm(n_pairs, generator=generator).tolist()
    halves = [scores.pick(order[: n_pairs // 2]), scores.pick(order[n_pairs // 2 :])]
    first, second = (choose(half_mean(half), graph, n) for half in halves)
    return overlap(first, second)


def half_mean(scores: Measurement) -> Measurement:
    """The mean score of each edge over pairs, without an interval: many halves are taken."""
    values = np.nanmean(scores.values, axis=scores.axis("example"))
    return replace(scores, values=values, dims=("edge",), coords={"edge": scores.coords["edge"]}, labels=None)


def overlap_of_seeds(circuits: Sequence[Circuit], seeds: Sequence[int]) -> Measurement:
    """The overlap of each seed's circuit with all others: dims `seed`; its `mean("seed")` has an interval.

    The interval counts seeds as if their values were independent, and they share partners: it is a little too narrow
    for few seeds.

    Raises:
        ValueError: if there are fewer than two circuits, not as many seeds, or circuits of different graphs.
    """
    if len(circuits) < 2 or len(circuits) != len(seeds):
        raise ValueError(f"overlap is of two circuits or more, a seed each, not {len(circuits)} of {len(seeds)}")
    values = [
        np.mean([overlap(one, other) for other_seed, other in zip(seeds, circuits, strict=True) if other_seed != seed])
        for seed, one in zip(seeds, circuits, strict=True)
    ]
    size = round(float(np.mean([len(one) for one in circuits])))
    return Measurement(
        name="Overlap of circuits of several seeds",
        values=np.array(values),
        dims=("seed",),
        coords={"seed": list(seeds)},
        units=UNITS,
        settings={"edges": [len(one) for one in circuits], "chance": chance_overlap(size, circuits[0].graph)},
        caption="The edges that a seed's circuit and another's both have, as a share of those that either has, mean "
        "over the other seeds. A head of one seed need not do what the head of the same number does in another: low "
        "overlap is no proof of another mechanism.",
    )
