"""Dispersion: even rows at 1, single keys at 0, and softmax of bounded scores in between, flatter with length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from workbench.capture import Capture
from workbench.instruments.attention import dispersion

Stage = Callable[..., Capture]


def even(n_pos: int) -> torch.Tensor:
    rows = torch.ones(n_pos, n_pos, dtype=torch.float64).tril()
    return rows / rows.sum(-1, keepdim=True)


def test_even_rows_are_one_single_keys_zero_and_the_first_row_neither(stage: Stage) -> None:
    patterns = torch.stack([even(9), torch.eye(9, dtype=torch.float64)])[None].expand(2, -1, -1, -1)
    found = dispersion.measure(stage(torch.arange(9).expand(2, -1), n_layers=1, patterns=[patterns]))
    assert found.dims == ("layer", "head", "keys", "example")
    assert list(found.coords["keys"]) == ["2–3", "4–7", "8–15", "16–31", "32–63", "64–127"]
    assert found.values[0, 0, :3] == pytest.approx(1) and found.values[0, 1, :3] == pytest.approx(0)
    assert np.isnan(found.values[:, :, 3:]).all(), "no row has so many keys"


def test_a_row_is_its_entropy_over_the_log_of_its_keys() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0], [0.9, 0.1, 0.0], [0.2, 0.2, 0.6]])
    found = dispersion._evenness(p)
    expected = [
        -(0.9 * np.log(0.9) + 0.1 * np.log(0.1)) / np.log(2),
        -(0.4 * np.log(0.2) + 0.6 * np.log(0.6)) / np.log(3),
    ]
    assert found[1:].tolist() == pytest.approx(expected, abs=1e-6) and found[0].isnan()
    assert dispersion._evenness(3 * p)[1:].tolist() == pytest.approx(expected, abs=1e-6)


def test_bounded_scores_flatten_with_length_and_log_n_keeps_them_sharp(stage: Stage) -> None:
    """One key scores 3 above all others: softmax loses it among many keys, but not if scores grow with log n."""
    n_pos = 64
    scores = torch.zeros(n_pos, n_pos)
    scores[:, 0] = 3.0
    causal = torch.ones(n_pos, n_pos).triu(1).bool()
    plain = scores.masked_fill(causal, -torch.inf).softmax(-1)
    grown = (scores * torch.arange(1, n_pos + 1).log()[:, None]).masked_fill(causal, -torch.inf).softmax(-1)
    patterns = torch.stack([plain, grown])[None]
    found = dispersion.measure(stage(torch.arange(n_pos)[None], n_layers=1, patterns=[patterns])).values[0, :, :5, 0]
    assert (np.diff(found[0]) > 0).all() and found[0, -1] > 0.7
    assert found[1, -1] < 0.05


def test_padding_has_no_rows(stage: Stage) -> None:
    tokens = torch.tensor([[0, 1, 2, 3, 4], [0, 1, 5, 5, 5]])
    patterns = even(5).expand(2, 1, 5, 5).clone()
    patterns[1, :, 2:] = torch.eye(5, dtype=torch.float64)[2:]
    found = dispersion.measure(stage(tokens, pad=5, n_layers=1, patterns=[patterns])).values[0, 0]
    assert found[0] == pytest.approx([1, 1]) and found[1, 0] == pytest.approx(1) and np.isnan(found[1, 1])
