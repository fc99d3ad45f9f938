"""Rollout and flow: products and narrowest places of layered graphs, against a linear program and by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import rollout
from workbench.instruments.attention.flow import flow
from workbench.models.attention import ATTENTION

Chained = Callable[..., Capture]
Pattern = Callable[..., Tensor]


def test_two_layers_of_perfect_attention_divide_as_the_binomial(chained: Chained, parents: Pattern) -> None:
    """Of what leaves a position of depth 2 or more, ¼ took no step, ½ took one and ¼ took two."""
    found = rollout.rollout(chained(parents, parents))
    truth = chained(parents).truth
    deep = truth.adjacency(6, 16, 2)
    query = deep.any(-1)
    assert torch.allclose(found[deep], torch.tensor(0.25, dtype=found.dtype))
    assert torch.allclose(found[truth.adjacency(6, 16, 1) & query[..., None]], torch.tensor(0.5, dtype=found.dtype))
    assert torch.allclose(found.sum(-1), torch.ones_like(found[..., 0]))


def test_the_last_layer_is_applied_first(chained: Chained, parents: Pattern, uniform: Pattern) -> None:
    first, last = rollout.layer_graphs(chained(parents, uniform), residual=0.0)
    assert torch.equal(rollout.rollout(chained(parents, uniform), residual=0.0), last @ first)
    assert not torch.allclose(last @ first, first @ last)


def test_one_layer_of_chacal_reaches_what_takes_a_deep_model_all_its_layers(chained: Chained, parents: Pattern) -> None:
    reached = {}
    for name, capture in {"deep": chained(*[parents] * 3), "chacal": chained(parents, variant="chacal")}.items():
        found = rollout.measure(capture, residual=0.3).mean("example")
        assert found.dims == ("hop",) and list(found.coords["hop"])[:3] == [1, 2, 3]
        reached[name] = dict(zip(found.coords["hop"], found.values, strict=True))
    shallow = rollout.measure(chained(parents), residual=0.3).mean("example")
    assert min(reached["deep"][3], reached["chacal"][3]) > 0.05 and shallow.select(hop=3).values == 0
    assert all(parts["elsewhere"] == pytest.approx(0) for parts in reached.values())
    assert reached["chacal"]["own"] == pytest.approx(0.3)


def test_heads_are_averaged_or_their_largest_taken(chained: Chained, parents: Pattern) -> None:
    heads = lambda tokens: torch.cat([parents(tokens), parents(tokens, 2)], dim=1)  # noqa: E731
    mean, largest = (rollout.layer_graphs(chained(heads), heads=how)[0] for how in ("mean", "max"))  # type: ignore[arg-type]
    assert torch.allclose(mean, largest)  # rows of one-hot heads: both are half and half
    blurred = lambda tokens: 0.5 * heads(tokens) + 0.5 * parents(tokens)  # noqa: E731
    mean, largest = (rollout.layer_graphs(chained(blurred), heads=how)[0] for how in ("mean", "max"))  # type: ignore[arg-type]
    assert not torch.allclose(mean, largest) and torch.allclose(largest.sum(-1), mean.sum(-1))


def test_matrices_of_one_example_can_be_drawn_as_a_heads(chained: Chained, uniform: Pattern) -> None:
    capture = chained(uniform, uniform)
    found = rollout.matrices(capture, 2)
    assert found.dims == ("matrix", "query", "key") and found.coords["key"][3] == f"3:{int(capture.batch.tokens[2, 3])}"
    assert found.select(matrix="rollout").values == pytest.approx(rollout.rollout(capture)[2].numpy())


def test_wrong_shares_and_heads_are_refused(chained: Chained, uniform: Pattern) -> None:
    with pytest.raises(ValueError, match=r"share must be in \[0, 1\], not 1.5"):
        rollout.measure(chained(uniform), residual=1.5)
    with pytest.raises(ValueError, match="'mean' or 'max', not 'sum'"):
        rollout.measure(chained(uniform), heads="sum")  # type: ignore[arg-type]


@pytest.mark.parametrize("variant", sorted(ATTENTION))
def test_flow_on_one_layer_is_rollout(stage: Callable[..., Capture], variant: str) -> None:
    capture = stage([[1, 2, 3, 1, 2]], n_layers=1, variant=variant)
    assert flow(capture, 0, 4) == pytest.approx(rollout.rollout(capture)[0, 4].numpy(), abs=1e-8)


def test_flow_through_two_layers_is_a_sum_of_narrowest_places(stage: Callable[..., Capture]) -> None:
    """Paths through two layers share no edge, so the flow is Σ_j min(Ã₂[q, j], Ã₁[j, k])."""
    capture = stage([[1, 2, 3, 1, 2, 4]], n_layers=2)
    first, last = (graph[0].double().numpy() for graph in rollout.layer_graphs(capture))
    expected = np.minimum(last[5][:, None], first).sum(0)
    assert flow(capture, 0, 5) == pytest.approx(expected, abs=1e-8)


def test_flow_through_three_layers_is_the_optimum_of_its_linear_program(stage: Callable[..., Capture]) -> None:
    from scipy.optimize import linprog

    capture, n = stage([[1, 2, 3, 1, 2]], n_layers=3), 5
    graphs = [graph[0].double().numpy() for graph in rollout.layer_graphs(capture)]
    edges = [(layer, q, k) for layer in range(3) for q in range(n) for k in range(q + 1)]
    balance = np.zeros((2 * n, len(edges)))  # of the nodes between the layers: what comes in from above goes down
    for e, (layer, q, k) in enumerate(edges):
        if layer > 0:
            balance[(layer - 1) * n + k, e] += 1
        if layer < 2:
            balance[layer * n + q, e] -= 1
    for key in range(n):
        bounds = [
            (0, graphs[layer][q, k] * (layer < 2 or q == n - 1) * (layer > 0 or k == key)) for layer, q, k in edges
        ]
        leaving = [-1.0 if layer == 2 else 0.0 for layer, _, _ in edges]
        optimum = -linprog(leaving, A_eq=balance, b_eq=np.zeros(2 * n), bounds=bounds).fun
        assert flow(capture, 0, n - 1)[key] == pytest.approx(optimum, abs=1e-7)


def test_flow_of_no_such_position_is_refused(stage: Callable[..., Capture]) -> None:
    with pytest.raises(ValueError, match="no position 3 of example 0; it is 1 examples of 3 positions"):
        flow(stage([[1, 2, 3]]), 0, 3)
