"""Rows that hold most of a sequence's squared norm: found anywhere and however many, and left out beside a measure."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from workbench.instruments.residual.dominant_rows import TIMES, _dominant, with_others
from workbench.instruments.residual.effective_rank import effective_rank
from workbench.instruments.residual.renyi import matrix_entropy
from workbench.util.seeds import generator

RAW = {"centre": False, "unit_rows": False}


def rows(n: int = 3, pos: int = 24, d: int = 16) -> Tensor:
    return torch.randn(n, pos, d, generator=generator(0, "dominant"), dtype=torch.float64)


@pytest.mark.parametrize("places", [[0], [11], [0, 7, 20]])
@pytest.mark.parametrize("how", [RAW, {"centre": True, "unit_rows": False}, {"centre": True, "unit_rows": True}])
def test_rows_that_dominate_are_found_anywhere_and_the_measure_is_that_of_the_others(
    places: list[int], how: dict[str, bool]
) -> None:
    z = rows()
    others = [place for place in range(24) if place not in places]
    expected = matrix_entropy(z[:, others], **how)
    z[1:, places] *= 40
    found, shares = _dominant(z, **how)
    assert found[1:].nonzero()[:, 1].tolist() == places * 2 and not found[0].any()
    every = with_others(z, matrix_entropy, **how)
    assert every[:, 0].equal(matrix_entropy(z, **how).double())
    assert every[1:, 1] == pytest.approx(expected[1:]) and every[0, 1:].isnan().all()
    assert every[1:, 2].tolist() == [len(places)] * 2
    assert every[1:, 3] == pytest.approx((shares * found).sum(-1)[1:]) and (every[1:, 3] > 0.9).all()
    assert all(int(place) in places for place in every[1:, 4])
    assert (every[1:, 1] > every[1:, 0] + 0.5).all()


def test_rows_of_length_one_never_dominate_and_ordinary_rows_seldom_do() -> None:
    z = rows(64)
    assert not _dominant(z, **RAW)[0].any()
    z[:, 0] *= 1000
    assert not _dominant(z, centre=False, unit_rows=True)[0].any()
    assert with_others(z, matrix_entropy, **RAW, kernel="gaussian")[:, 1:].isnan().all(), "its diagonal is 1"


def test_one_row_of_many_that_stands_out_without_most_of_the_norm_does_not_dominate() -> None:
    z = torch.eye(64, dtype=torch.float64)[None].clone()
    z[0, 5] *= (TIMES + 1) ** 0.5
    assert not _dominant(z, **RAW)[0].any()
    z[0, 5] *= 3
    assert _dominant(z, **RAW)[0].nonzero().tolist() == [[0, 5]]


def test_effective_rank_and_sequences_of_zeros_and_of_one_row() -> None:
    z = rows()
    z[:, 3] *= 100
    assert (with_others(z, effective_rank, **RAW)[:, 1] > 8).all()
    for few in (torch.zeros(2, 5, 4), torch.ones(2, 1, 4)):
        assert with_others(few, matrix_entropy, **RAW)[:, 1:].isnan().all()
