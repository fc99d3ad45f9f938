"""Which ancestor a row picks out, against the definition written out key by key; ties, signs and empty rows with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench.mechanisms.chain_following import picked_out


def by_definition(mixing: Tensor, others: Tensor, gold: Tensor) -> np.ndarray:
    """`[head, batch]`, one row after the other."""
    n, n_heads, n_pos, _ = mixing.shape
    found = np.full((n_heads, n), np.nan)
    for head in range(n_heads):
        for example in range(n):
            shares = []
            for query in range(n_pos):
                if not gold[example, query].any():
                    continue
                row = mixing[example, head, query]
                keys = gold[example, query] | others[example, query]
                top = keys & (row == row[keys].max()) & (row > 0)
                shares.append(float((top & gold[example, query]).sum() / max(1, int(top.sum()))))
            if shares:
                found[head, example] = np.mean(shares)
    return found


@pytest.mark.parametrize("entries", ["all different", "many equal", "float64", "causal"])
def test_it_is_the_share_of_rows_whose_largest_entry_is_gold(entries: str) -> None:
    draws = torch.Generator().manual_seed(0)
    for n in (1, 4):
        shape = (n, 3, 7, 7)
        mixing = torch.rand(shape, generator=draws, dtype=torch.float64 if entries == "float64" else torch.float32)
        if entries == "many equal":
            mixing = torch.randint(-1, 3, shape, generator=draws).float()
        mixing = mixing.tril() if entries == "causal" else mixing
        gold, others = (torch.rand(n, 7, 7, generator=draws) < share for share in (0.2, 0.5))
        gold[0, 0], others[0, 1] = False, False  # a query without a gold key, and one without any other
        found = picked_out(mixing, others, gold)
        assert found[:, 0] == pytest.approx(by_definition(mixing, others, gold), nan_ok=True)


def test_where_nothing_is_gold_there_is_no_share() -> None:
    nothing = torch.zeros(2, 5, 5, dtype=torch.bool)
    assert np.isnan(picked_out(torch.rand(2, 1, 5, 5), ~nothing, nothing)).all()
