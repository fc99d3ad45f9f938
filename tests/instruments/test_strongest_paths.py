"""Strongest paths against all paths of small graphs, counted out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, product

import pytest
import torch
from torch import Tensor

from workbench.capture import Capture
from workbench.instruments.attention import rollout
from workbench.instruments.attention.resolvent import chacal
from workbench.instruments.attention.strongest_paths import Path, across_layers, table, within_layer

Patterns = Callable[..., Tensor]


def every_path_within(A: Tensor, query: int, key: int, gamma: float) -> list[tuple[float, tuple[int, ...]]]:
    """All strictly falling sequences of positions from query to key, strongest first."""
    found = []
    for length in range(query - key):
        for between in combinations(range(query - 1, key, -1), length):
            places = (query, *between, key)
            edges = [A[i, j].item() for i, j in pairwise(places)]
            found.append((torch.tensor(edges, dtype=A.dtype).prod().item() * gamma**length, places))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("gamma", [1.0, 0.6])
@pytest.mark.parametrize("longest", [None, 1, 2, 3])
def test_paths_within_a_layer_are_the_strongest_of_all(
    random_pattern: Patterns, gamma: float, longest: int | None
) -> None:
    A = random_pattern(8, seed=3)
    expected = [(w, p) for w, p in every_path_within(A, 7, 1, gamma) if longest is None or len(p) - 1 <= longest][:6]
    found = within_layer(A, 7, 1, most=6, longest=longest, gamma=gamma)
    assert [path.positions for path in found] == [positions for _, positions in expected]
    assert [path.weight for path in found] == pytest.approx([weight for weight, _ in expected])


def test_weights_of_all_paths_within_a_layer_sum_to_the_resolvent(random_pattern: Patterns) -> None:
    """Where no query attends to itself, (1 − γ) Σ_paths γ^(h−1) Π edges is Eq. 5 entry by entry."""
    A = random_pattern(7).tril(-1)
    found = within_layer(A, 6, 1, most=1000, gamma=0.9)
    assert len(found) == 2**4
    assert 0.1 * sum(path.weight for path in found) == pytest.approx(chacal(0.9).mixing_matrix(A)[6, 1].item())


def every_path_across(layers: list[Tensor], query: int, key: int, residual: float) -> list[float]:
    """Weights of all ways through the layers, last layer first, strongest first."""
    n_heads, n_pos = layers[0].shape[:2]
    found = []
    for places in product(range(n_pos), repeat=len(layers) - 1):
        stops = (query, *places, key)
        choices = []
        for layer, here, there in zip(reversed(layers), stops, stops[1:], strict=False):
            heads = [(1 - residual) / n_heads * layer[head, here, there].item() for head in range(n_heads)]
            choices.append([*heads, residual] if here == there else heads)
        found += [torch.tensor(edges, dtype=torch.float64).prod().item() for edges in product(*choices)]
    return sorted((weight for weight in found if weight > 0), reverse=True)


@pytest.mark.parametrize("residual", [0.0, 0.5, 0.2])
def test_paths_across_layers_are_the_strongest_of_all(random_pattern: Patterns, residual: float) -> None:
    layers = list(random_pattern(4, 3, 2, seed=1))
    expected = every_path_across(layers, 3, 1, residual)
    found = across_layers(layers, 3, 1, most=10, residual=residual)
    assert [path.weight for path in found] == pytest.approx(expected[:10])
    for path in found:
        assert path.layers == (2, 1, 0) and (path.positions[0], path.positions[-1]) == (3, 1)
        assert torch.tensor(path.weights).prod().item() == pytest.approx(path.weight)
        for here, there, head in zip(path.positions, path.positions[1:], path.heads, strict=False):
            assert head is not None or here == there


def test_weights_of_all_paths_across_layers_sum_to_the_rollout(stage: Callable[..., Capture]) -> None:
    capture = stage([[1, 2, 3, 1]], n_layers=2)
    layers = [capture[f"blocks.{layer}.attn.hook_pattern"][0] for layer in range(2)]
    found = across_layers(layers, 3, 0, most=1000)
    assert sum(path.weight for path in found) == pytest.approx(rollout.rollout(capture)[0, 3, 0].item(), abs=1e-6)


def test_the_strongest_path_of_perfect_attention_is_the_chain(
    chained: Callable[..., Capture], parents: Patterns
) -> None:
    capture = chained(parents)
    ancestors = capture.truth.arrays["ancestors"][0, 15].tolist()
    A = capture["blocks.0.attn.hook_pattern"][0, 0]
    assert within_layer(A, 15, ancestors[-1]) == [Path((15, *ancestors), (1.0,) * 3, (0,) * 3, (None,) * 3, 1.0)]
    deep = across_layers([A[None]] * 3, 15, ancestors[-1])
    assert [path.positions for path in deep] == [(15, *ancestors)] and deep[0].heads == (0, 0, 0)


def test_long_sequences_are_quick_since_only_paths_that_arrive_are_followed(random_pattern: Patterns) -> None:
    found = within_layer(random_pattern(128), 127, 0, most=3)
    assert len(found) == 3 and found[0].weight >= found[1].weight >= found[2].weight > 0


def test_impossible_questions_are_refused(random_pattern: Patterns) -> None:
    A = random_pattern(4)
    with pytest.raises(ValueError, match="back to a key among 4 positions, not from 1 to 2"):
        within_layer(A, 1, 2)
    with pytest.raises(ValueError, match="not from 4 to 0"):
        across_layers([A[None]], 4, 0)
    with pytest.raises(ValueError, match="not from 2 to itself"):
        within_layer(A, 2, 2)
    with pytest.raises(ValueError, match="there is no layer"):
        across_layers([], 1, 0)
    for wrong in ({"most": 0}, {"longest": 0}, {"gamma": 0.0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            within_layer(A, 2, 1, **wrong)


def test_a_table_keeps_the_weight_and_the_way_of_every_path(random_pattern: Patterns) -> None:
    found = within_layer(random_pattern(5), 4, 1, most=2)
    kept = table(found, ["a", "b", "c", "d", "e"], "m")
    assert kept.values.tolist() == [path.weight for path in found] and kept.settings["model"] == "m"
    assert kept.labels is not None and kept.labels[0] == " → ".join("abcde"[at] for at in found[0].positions)
    assert kept.frame()["path"].tolist() == ["1", "2"]
