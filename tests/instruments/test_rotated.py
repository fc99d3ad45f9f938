"""A rotated compiled model computes the same along no axis: projections name the same tokens as on the plain one."""

from __future__ import annotations

from functools import lru_cache

import pytest
import torch
from jaxtyping import Bool
from torch import Tensor

from workbench.capture import Capture, Subject, capture
from workbench.instruments.residual.projection import How, components, from_embedding, real_positions
from workbench.models.compiled import sorter
from workbench.tasks import make
from workbench.util.seeds import generator

TASK = make("sorting", q=10, max_length=16)


@lru_cache
def sorted_by(rotate_seed: int | None, dtype: torch.dtype) -> Capture:
    model = sorter(10, rotate_seed, TASK.n_ctx, pad=True).to(dtype)
    subject = Subject.of(model, TASK, "sorter")
    return capture(model, subject, TASK.sample(100, generator(0, "rotated")), from_embedding(subject))


def compared(
    basis: str, how: How, rotate_seed: int, dtype: torch.dtype, margin: float
) -> tuple[Bool[Tensor, " clear"], int]:
    """Whether the top tokens agree at each cell whose plain margin is larger, and how many cells that is."""
    plain, rotated = (cells(sorted_by(seed, dtype), basis, how) for seed in (None, rotate_seed))
    best, second = plain.topk(2).values.unbind(-1)
    clear = best - second > margin
    return (rotated.argmax(-1) == plain.argmax(-1))[clear], int(clear.sum())


def cells(seen: Capture, basis: str, how: How) -> Tensor:
    """`[cell, token]`: the components at every point and real position."""
    at = [seen[point][real_positions(seen)] for point in from_embedding(seen.subject)]
    return components(seen.subject, torch.cat(at), basis, how=how)


# Of 9590 cells (five points, 1918 positions), at least so many have such a margin: on the decoder basis the embedding
# has none, and where copies are counted, the count is so much larger than the rest that cosines with a token's encoder
# vector hardly differ.
CLEAR: dict[tuple[str, How], int] = {
    ("encoder", "raw"): 9500,
    ("encoder", "cosine"): 7000,
    ("encoder", "coordinates"): 9500,
    ("decoder", "raw"): 7000,
    ("decoder", "cosine"): 7000,
    ("decoder", "coordinates"): 7000,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rotate_seed", [1, 2])
@pytest.mark.parametrize(("basis", "how"), CLEAR)
def test_rotation_changes_no_top_token_whose_margin_exceeds_a_thousandth(
    basis: str, how: How, rotate_seed: int, dtype: torch.dtype
) -> None:
    agree, clear = compared(basis, how, rotate_seed, dtype, margin=1e-3)
    assert bool(agree.all()) and clear >= CLEAR[basis, how]
