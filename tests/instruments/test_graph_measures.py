"""Reach, gathering and path length of graphs whose values follow by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.models.toys import SilentTwoStepAttention, TwoStepAttention
from workbench.capture import Capture
from workbench.instruments.attention import graph_measures
from workbench.instruments.attention.graph_measures import _gini, _reach
from workbench.models.attention import ATTENTION

Chained = Callable[..., Capture]
Pattern = Callable[..., Tensor]


def found(capture: Capture, name: str, **settings: float) -> np.ndarray:
    return graph_measures.measure(capture, **settings).select(measure=name, layer=0).values


def test_reach_of_perfect_attention_is_its_chain(chained: Chained, parents: Pattern) -> None:
    expected = np.mean([(i // 4) / i for i in range(1, 16)])
    assert found(chained(parents), "reach") == pytest.approx(expected)


def test_everything_is_reached_by_attention_to_the_position_before() -> None:
    previous = torch.diag(torch.ones(299, dtype=torch.float64), -1)
    assert torch.equal(_reach(previous[None, None], 0.5)[0, 0, 1:], torch.ones(299))


def test_reach_is_the_closure_of_the_edges_above_the_threshold(random_pattern: Pattern) -> None:
    A = random_pattern(12, 3, 2)
    closed = edges = (A >= 0.2) & torch.ones(12, 12, dtype=torch.bool).tril(-1)
    for _ in range(12):
        closed = closed | ((closed.double() @ edges.double()) > 0)
    assert torch.equal(_reach(A, 0.2), closed.sum(-1) / torch.arange(12).clamp(min=1))
    assert (_reach(A, 0.4) <= _reach(A, 0.2)).all()


def test_one_key_that_all_read_receives_everything(chained: Chained) -> None:
    def sink(tokens: Tensor) -> Tensor:
        rows = torch.zeros(len(tokens), 1, 16, 16, dtype=torch.float64)
        rows[..., 0] = 1
        return rows

    assert found(chained(sink), "largest key") == pytest.approx(1)
    assert found(chained(sink), "gini") == pytest.approx(1 - 1 / 15)


def test_gini_is_half_the_mean_difference_over_the_mean() -> None:
    received = torch.tensor([[[0.5, 2.0, 0.0, 1.0, 0.0, 0.0]]], dtype=torch.float64)
    real = torch.tensor([[True] * 5 + [False]])
    x = received[0, 0, :4]
    assert _gini(received, real).item() == pytest.approx(((x[:, None] - x).abs().mean() / (2 * x.mean())).item())
    assert _gini((received >= 0) * torch.tensor([1.0, 1, 1, 1, 0, 0]), real).item() == pytest.approx(0)


def test_path_length_of_chacal_on_chains_is_that_of_the_truncated_geometric_series(
    chained: Chained, parents: Pattern
) -> None:
    def mean_length(depth: int, gamma: float = 0.9) -> float:
        weights = gamma ** np.arange(max(depth, 1))  # the first block reads itself, in one step
        return float(np.average(np.arange(1, max(depth, 1) + 1), weights=weights))

    expected = np.mean([mean_length(i // 4) for i in range(1, 16)])
    assert found(chained(parents, variant="chacal"), "path length") == pytest.approx(expected)
    assert found(chained(parents), "path length") == pytest.approx(1)


def test_a_variant_of_two_steps_has_a_path_length_of_one_and_a_half(
    chained: Chained, parents: Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATTENTION, "two_step", TwoStepAttention)
    capture = chained(parents, variant="two_step")
    assert found(capture, "path length") == pytest.approx(1.5)


def test_a_variant_that_does_not_say_its_steps_is_not_measured_as_one_step(
    chained: Chained, parents: Pattern, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATTENTION, "silent_two_step", SilentTwoStepAttention)
    capture = chained(parents, variant="silent_two_step")
    measured = graph_measures.measure(capture)
    assert np.isnan(measured.select(measure="path length").values).all()
    assert "does not say by how many steps" in measured.settings["undefined"]["path length"][0]
    assert not np.isnan(measured.select(measure="reach").values).any()


def test_the_scale_of_a_pattern_changes_no_measure(chained: Chained, random_pattern: Pattern) -> None:
    A = random_pattern(16, 6, 2)
    one, other = (graph_measures.measure(chained(lambda tokens, t=t: t * A)).values for t in (1.0, 0.2))
    assert other == pytest.approx(one)


def test_padding_changes_no_measure(stage: Callable[..., Capture], random_pattern: Pattern) -> None:
    A = random_pattern(6, 1, 2)
    short = stage([[1, 2, 3, 1]], pad=4, n_layers=1, variant="chacal", patterns=[A[..., :4, :4]])
    padded = stage([[1, 2, 3, 1, 4, 4]], pad=4, n_layers=1, variant="chacal", patterns=[A])
    both = [graph_measures.measure(capture).values for capture in (short, padded)]
    assert both[0] == pytest.approx(both[1]) and not np.isnan(both[0]).any()


def test_a_threshold_that_every_key_passes_is_refused(chained: Chained, uniform: Pattern) -> None:
    with pytest.raises(ValueError, match=r"threshold must be in \(0, 1\], not 0"):
        graph_measures.measure(chained(uniform), threshold=0)
