"""Do two circuits agree? The overlap of circuits found on halves of the pairs, or in several seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import torch

from workbench.circuits.circuit import Circuit, top_edges
from workbench.circuits.graph import Graph
from workbench.measurement import Measurement
from workbench.util.progress import steps
from workbench.util.seeds import generator

Choose = Callable[[Measurement, Graph, int], Circuit]
SPLITS = 200  # random halves
DRAWS = 100  # of two random circuits each
UNITS = "share of edges"


def overlap(first: Circuit, second: Circuit) -> float:
    """The edges that both have, as a share of those that either has (Jaccard); 1 where both are empty.

    Raises:
        ValueError: if they are circuits of different graphs.
    """
    if first.graph != second.graph:
        raise ValueError("the circuits are of models with different numbers of layers or heads")
    edges, other_edges = set(first.names), set(second.names)
    return len(edges & other_edges) / len(edges | other_edges) if edges | other_edges else 1.0


@lru_cache(maxsize=64)
def chance_overlap(n: int, graph: Graph, choose: Choose = top_edges, draws: int = DRAWS) -> float:
    """The mean overlap of two circuits of n edges that are chosen in the same way from random scores.

    The two have nothing in common but the graph and the way of choosing. Circuits grown from the logits all begin
    there, so they share more edges than sets of edges drawn at random. The draws are the same every time.
    """
    order, values = generator(0, "chance overlap"), []
    for _ in steps(range(draws), "growing circuits from random scores"):
        ranks = [torch.randperm(graph.n_edges, generator=order).double().numpy() + 1 for _ in range(2)]
        dealt = [Measurement("Random scores", rank, ("edge",), {"edge": graph.names}, "rank") for rank in ranks]
        values.append(overlap(*(choose(scores, graph, n) for scores in dealt)))
    return float(np.mean(values))


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
    interval of the mean, since halvings share pairs. `settings["chance"]` is the overlap of circuits that are chosen in
    the same way from random scores (`chance_overlap`).

    Args:
        scores, graph: of every edge and pair: dims `edge`, `example`; the model's.
        n: how many edges.
        generator, splits, choose: draws the halves; how many halvings; chooses n edges by scores.

    Raises ValueError if there are fewer than two pairs, or no scores for each pair.
    """
    n_pairs = scores.values.shape[scores.axis("example")]
    if n_pairs < 2 or splits < 1:
        raise ValueError(f"halves need two pairs or more and a halving, not {n_pairs} and {splits}")
    halvings = steps(range(splits), "growing circuits from halves of the pairs")
    values = [_overlap_of_two_halves(scores, graph, n, generator, choose) for _ in halvings]
    (low, high), chance = np.quantile(values, (0.025, 0.975)), chance_overlap(n, graph, choose)
    return Measurement(
        name="Overlap of circuits from two halves of the pairs",
        values=np.array(np.mean(values)),
        dims=(),
        coords={},
        units=UNITS,
        settings={**scores.settings, "edges": n, "splits": splits, "chance": chance, "draws": DRAWS},
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
    circuits = []
    for half in (scores.pick(order[: n_pairs // 2]), scores.pick(order[n_pairs // 2 :])):
        mean = np.nanmean(half.values, axis=half.axis("example"))  # without an interval: many halves are taken
        edges = {"edge": half.coords["edge"]}
        circuits.append(choose(replace(half, values=mean, dims=("edge",), coords=edges, labels=None), graph, n))
    return overlap(*circuits)


def overlap_of_seeds(circuits: Sequence[Circuit], seeds: Sequence[int], choose: Choose = top_edges) -> Measurement:
    """The overlap of each seed's circuit with all others: dims `seed`; its `mean("seed")` has an interval.

    The interval counts seeds as if their values were independent, and they share partners: it is a little too narrow
    for few seeds.

    Args:
        circuits, seeds: a circuit of each seed.
        choose: how they were chosen by scores, for `settings["chance"]` (`chance_overlap`).

    Raises:
        ValueError: if there are fewer than two circuits, not as many seeds, or circuits of different graphs.
    """
    if len(circuits) < 2 or len(circuits) != len(seeds):
        raise ValueError(f"overlap is of two circuits or more, a seed each, not {len(circuits)} of {len(seeds)}")
    values = [
        np.mean([overlap(one, other) for other_seed, other in zip(seeds, circuits, strict=True) if other_seed != seed])
        for seed, one in zip(seeds, circuits, strict=True)
    ]
    edges = [len(one) for one in circuits]
    chance = chance_overlap(round(float(np.mean(edges))), circuits[0].graph, choose)
    return Measurement(
        name="Overlap of circuits of several seeds",
        values=np.array(values),
        dims=("seed",),
        coords={"seed": list(seeds)},
        units=UNITS,
        settings={"edges": edges, "chance": chance, "draws": DRAWS},
        caption="The edges that a seed's circuit and another's both have, as a share of those that either has, mean "
        "over the other seeds. A head of one seed need not do what the head of the same number does in another: low "
        "overlap is no proof of another mechanism.",
    )
