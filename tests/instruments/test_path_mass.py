"""How rows divide between ancestors and the rest: planted attention has known shares, random attention has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import attention_graph, path_mass, rollout
from workbench.measurement.controls.random_graph import random_graph
from workbench.mechanisms import chain_following
from workbench.tasks import Truth
from workbench.util.seeds import generator

Chained = Callable[..., Capture]
Pattern = Callable[..., Tensor]


def parts(found: object) -> dict[object, float]:
    mean = found.mean("example").select(layer=0, head=0)  # type: ignore[attr-defined]
    return dict(zip(mean.coords["hop"], mean.values, strict=True))


@pytest.mark.parametrize("gamma", [0.5, 0.9])
def test_the_mass_of_perfect_attention_falls_by_gamma_with_every_hop(
    chained: Chained, parents: Pattern, gamma: float
) -> None:
    """At depth d the shares are γ^(h−1) (1−γ) / (1−γ^d), from the geometric series of the resolvent."""
    found = parts(path_mass.measure(chained(parents), gamma=gamma))
    expected = [
        np.mean([gamma ** (h - 1) * (h <= d) * (1 - gamma) / (1 - gamma**d) for d in (1, 2, 3)]) for h in (1, 2, 3)
    ]
    assert [found[hop] for hop in (1, 2, 3)] == pytest.approx(expected)
    assert found["chain"] == pytest.approx(1) and found["elsewhere"] == pytest.approx(0)


def test_hops_sum_to_the_chain_and_the_rest_to_one(chained: Chained, uniform: Pattern) -> None:
    found = parts(path_mass.measure(chained(uniform, variant="chacal"), n_hops=2))
    assert found[1] + found[2] + found["further"] == pytest.approx(found["chain"]) and found["further"] > 0
    assert found["chain"] + found["own"] + found["elsewhere"] == pytest.approx(1)


def test_the_chain_holds_what_the_attention_graph_finds(chained: Chained, uniform: Pattern) -> None:
    capture = chained(uniform, variant="chacal")
    chain = path_mass.measure(capture).select(hop="chain").values
    assert chain == pytest.approx(attention_graph.measure(capture).select(matrix="resolvent").values)


def test_a_key_that_is_an_ancestor_twice_counts_at_its_fewest_hops(chained: Chained, uniform: Pattern) -> None:
    edges = torch.tensor([[0, 1, 3, 2], [0, 2, 3, 2], [0, 2, 3, 0]])
    found = path_mass.measure(replace(chained(uniform, n=1), given_truth=Truth(edges)))
    assert parts(found)[1] == parts(found)[2] == pytest.approx(0.25) and parts(found)["chain"] == pytest.approx(0.5)


def test_examples_without_a_graph_have_no_shares(chained: Chained, uniform: Pattern) -> None:
    found = path_mass.measure(replace(chained(uniform), given_truth=Truth()), n_hops=2)
    assert found.values.shape == (1, 2, 6, 6) and np.isnan(found.values).all()


@pytest.mark.parametrize("measure", [path_mass.measure, rollout.measure, chain_following.score])
@pytest.mark.parametrize("n_hops", [0, -1])
def test_no_hops_are_refused(measure: Any, n_hops: int, chained: Chained, uniform: Pattern) -> None:
    with pytest.raises(ValueError, match=f"n_hops must be at least 1, not {n_hops}"):
        measure(chained(uniform), n_hops=n_hops)


def test_random_graphs_are_causal_distributions(chained: Chained, uniform: Pattern) -> None:
    capture = chained(uniform)
    found = random_graph(capture, generator(0, "graph"))["blocks.0.attn.hook_pattern"]
    assert found.dtype == torch.float64 and (found.triu(1) == 0).all()
    assert torch.allclose(found.sum(-1), torch.ones_like(found[..., 0]))


def test_drawn_rows_attend_uniformly_on_average(chained: Chained, uniform: Pattern) -> None:
    capture = chained(uniform, n=2000)
    found = random_graph(capture, generator(0, "graph"))["blocks.0.attn.hook_pattern"]
    assert (found.mean((0, 1)) - capture["blocks.0.attn.hook_pattern"][0, 0]).abs().max() < 0.02
    assert found.std((0, 1))[5, 2] == pytest.approx((1 / 6 * 5 / 6 / 7) ** 0.5, rel=0.05)  # of a flat Dirichlet


def test_a_random_graph_holds_chance_where_perfect_attention_holds_all(chained: Chained, parents: Pattern) -> None:
    """Of the i + 1 keys up to a query's own, the i // 4 ancestors among them get their share on average."""
    found = parts(path_mass.measure(random_graph(chained(parents, n=300), generator(0, "graph"))))
    expected = np.mean([(i // 4) / (i + 1) for i in range(4, 16)])
    assert found["chain"] == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("n_edges", [0, 1, 400])
def test_every_pair_of_positions_counts_once_at_its_fewest_hops(n_edges: int) -> None:
    draw = torch.randint(0, 7, (n_edges, 4), generator=generator(0, "edges"))
    fewest: dict[tuple[int, int, int], int] = {}
    for example, hop, query, key in draw.tolist():
        if query != key:
            fewest[example, query, key] = min(hop, fewest.get((example, query, key), hop))
    expected = [[example, hop, query, key] for (example, query, key), hop in sorted(fewest.items())]
    assert path_mass.first_edges(Truth(draw)).tolist() == expected
