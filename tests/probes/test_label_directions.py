"""The directions of a label: what is taken out with them, and how many there are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workbench.probes.label_directions import Subspace


def chance() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def rows(n: int = 4000, d: int = 10) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with a class along two directions and correlated noise; the directions."""
    y = torch.randint(3, (n,), generator=chance())
    directions = torch.linalg.qr(torch.randn(d, 2, generator=chance(), dtype=torch.float64)).Q
    centres = torch.tensor([[2.0, 0], [-1, 1.7], [-1, -1.7]], dtype=torch.float64) @ directions.mT
    mix = torch.randn(d, d, generator=chance(), dtype=torch.float64)
    return centres[y] + torch.randn(n, d, generator=chance(), dtype=torch.float64) @ mix, y, directions


def test_erasure_leaves_no_linear_probe_anything() -> None:
    """All class means coincide (Belrose et al. 2023, Theorem 3.1), and no more than the label's directions is gone."""
    x, y, _ = rows()
    space = Subspace.of(x, y, chance())
    assert space.rank == 2
    erased = space.moved(x, space.mean.expand_as(x))
    means = torch.stack([erased[y == k].mean(0) for k in range(3)])
    assert means == pytest.approx(x.mean(0).expand(3, -1), abs=1e-6)
    change = torch.linalg.matrix_rank((erased - x) - (erased - x).mean(0))
    assert change == 2 and space.projector @ space.projector == pytest.approx(space.projector, abs=1e-9)


def test_an_interchange_takes_what_is_read_and_leaves_the_rest() -> None:
    x, y, _ = rows()
    space = Subspace.of(x, y, chance())
    other = x[torch.randperm(len(x), generator=chance())]
    moved = space.moved(x, other)
    assert moved @ space.projector == pytest.approx(other @ space.projector, abs=1e-9)
    rest = torch.eye(10, dtype=torch.float64) - space.projector
    assert moved @ rest == pytest.approx(x @ rest, abs=1e-9)
    assert space.moved(x, x) == pytest.approx(x)
    beside = space.moved(x, other, rest=True)
    assert beside @ space.projector == pytest.approx(x @ space.projector, abs=1e-9), "other directions hold none of it"


def test_a_label_that_is_not_there_has_no_directions() -> None:
    """Of twenty that have nothing to do with the rows, some have one by chance; of a sequence's own, none has three."""
    x, _, _ = rows(1000)
    ranks = []
    for seed in range(20):
        own = torch.Generator().manual_seed(seed)
        ranks.append(Subspace.of(x, torch.randint(2, (len(x),), generator=own), own).rank)
    assert sum(ranks) <= 4
    group = torch.arange(40).repeat_interleave(25)
    shared = torch.randn(40, 10, generator=chance(), dtype=torch.float64)[group] + 0.1 * x
    for seed in range(5):
        own = torch.Generator().manual_seed(seed)
        label = torch.randint(4, (40,), generator=own)[group]
        assert Subspace.of(shared, label, own, group=group).rank <= 1
        assert Subspace.of(shared, label, own).rank == 3, "rows of a sequence are not independent"


def test_the_best_directions_may_be_asked_for_alone() -> None:
    x, y, _ = rows()
    assert Subspace.of(x, y, chance(), rank=1).rank == 1
