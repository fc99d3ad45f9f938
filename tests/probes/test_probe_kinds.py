"""The probes as mathematics: what they minimise, what they find, and what they must not depend on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from workbench.probes.probe_kinds import PROBES, logistic, low_rank, mlp, nearest_mean, ridge, ridge_numbers
from workbench.probes.probe_models import NEVER


def noisy(n: int = 600, d: int = 12, classes: int = 4, spread: float = 2.0) -> tuple[Tensor, Tensor]:
    """Rows with a class along a direction each, under noise of very different size along each feature."""
    chance = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (n,), generator=chance)
    centres = torch.randn(classes, d, generator=chance)
    x = centres[y] + spread * torch.randn(n, d, generator=chance)
    return (x * torch.logspace(-2, 2, d)).double(), y


def test_logistic_is_scikit_learns_minimum() -> None:
    x, y = noisy()
    found = logistic(x[None], y[None, None], 4, l2=0.5, tolerance=1e-13, most_steps=5000)
    scaler = StandardScaler().fit(x)
    oracle = LogisticRegression(C=2.0, tol=1e-10, max_iter=10_000).fit(scaler.transform(x), y)
    weight = found.weight[0, 0].numpy() * scaler.scale_[:, None]
    assert weight - weight.mean(1, keepdims=True) == pytest.approx(
        oracle.coef_.T - oracle.coef_.T.mean(1, keepdims=True), abs=2e-4
    )
    said = found.scores(x[None])[0, 0].softmax(-1).numpy()
    assert said == pytest.approx(oracle.predict_proba(scaler.transform(x)), abs=2e-4)


def test_many_problems_at_once_are_the_same_as_one_by_one() -> None:
    """Cells, labels of several sizes and rows without a label do not touch each other."""
    (x, y), (x2, y2) = noisy(), noisy(spread=4.0, classes=3)
    y2 = torch.where(torch.arange(len(y2)) % 5 == 0, -1, y2)
    cells, labels = torch.stack([x, x2]), torch.stack([torch.stack([y, y2]), torch.stack([y2, y])])
    how = {"tolerance": 1e-13, "most_steps": 4000}
    together = logistic(cells, labels, 4, **how).scores(cells).softmax(-1)
    for cell in range(2):
        for label in range(2):
            there = labels[cell, label] >= 0
            own = logistic(cells[cell : cell + 1, there], labels[cell : cell + 1, label : label + 1, there], 4, **how)
            # features are scaled over the rows that have any label, so the two differ by what l2 weighs alone
            assert own.scores(cells[cell : cell + 1])[0, 0].softmax(-1) == pytest.approx(
                together[cell, label], abs=0.01
            )


def test_ridge_and_nearest_mean_are_scikit_learns() -> None:
    x, y = noisy()
    scaled = StandardScaler().fit_transform(x)
    oracle = Ridge(alpha=3.0).fit(scaled, np.eye(4)[y])
    assert ridge(x[None], y[None, None], 4, l2=3.0).scores(x[None])[0, 0].numpy() == pytest.approx(
        oracle.predict(scaled)
    )
    numbers = ridge_numbers(x[None], y[None, None].double(), torch.ones(1, 1, len(y), dtype=torch.bool), l2=3.0)
    assert numbers.scores(x[None])[0, 0, :, 0].numpy() == pytest.approx(Ridge(alpha=3.0).fit(scaled, y).predict(scaled))
    nearest = nearest_mean(x[None], y[None, None], 4).scores(x[None])[0, 0].argmax(-1)
    assert nearest.tolist() == NearestCentroid().fit(scaled, y).predict(scaled).tolist()


def test_a_class_that_is_not_there_is_never_said() -> None:
    x, y = noisy()
    y = torch.where(y == 2, 1, y)
    chance = torch.Generator().manual_seed(0)
    for kind in PROBES.values():
        scores = kind(x[None].float(), y[None, None], 6, generator=chance).scores(x[None].float())
        assert not set(scores.argmax(-1).unique().tolist()) & {2, 4, 5}
        assert (scores[..., [2, 4, 5]] <= NEVER / 2).all()


def test_a_low_rank_probe_sees_no_more_than_its_rank() -> None:
    x, y = noisy(spread=0.5)
    for rank in (1, 2):
        found = low_rank(x[None], y[None, None], 4, rank=rank)
        weight = found.weight[0, 0] - found.weight[0, 0].mean(-1, keepdim=True)
        strengths = torch.linalg.svdvals(weight * x.std(0)[:, None])
        assert int((strengths > 1e-6 * strengths[0]).sum()) == rank
    assert (low_rank(x[None], y[None, None], 4, rank=3).scores(x[None])[0, 0].argmax(-1) == y).double().mean() > 0.97


def test_only_the_network_decodes_what_is_no_sum() -> None:
    """Exclusive or: no line separates it."""
    chance = torch.Generator().manual_seed(0)
    x = torch.randn(800, 2, generator=chance)
    y = ((x[:, 0] > 0) ^ (x[:, 1] > 0)).long()
    line = logistic(x[None], y[None, None], 2).scores(x[None])[0, 0].argmax(-1)
    bent = mlp(x[None], y[None, None], 2, generator=chance).scores(x[None])[0, 0].argmax(-1)
    assert (line == y).double().mean() < 0.65
    assert (bent == y).double().mean() > 0.95


@pytest.mark.parametrize("name", ["logistic", "ridge", "nearest_mean", "low_rank"])
def test_a_feature_that_never_changes_is_no_feature(name: str) -> None:
    x, y = noisy()
    constant = torch.cat([x, torch.full((len(x), 1), 7.0)], -1)
    plain, more = (PROBES[name](each[None], y[None, None], 4).scores(each[None]) for each in (x, constant))
    assert more.softmax(-1) == pytest.approx(plain.softmax(-1), abs=1e-3)
