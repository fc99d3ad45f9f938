"""Batches by number, in order, drawn here or ahead by worker processes: the same batches either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch.utils.data import DataLoader, Dataset

Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class _Numbered(Dataset[Drawn], Generic[Drawn]):
    draw: Callable[[int], Drawn]

    def __getitem__(self, number: int) -> Drawn:
        return self.draw(number)


def in_order(draw: Callable[[int], Drawn], numbers: range, workers: int) -> Iterator[Drawn]:
    """`draw(number)` for each number.

    Args:
        draw: a function of the number alone; it is sent to the workers, so it must pickle.
        numbers: which batches.
        workers: processes that draw ahead; 0 draws here.
    """
    if not workers:
        return map(draw, numbers)
    return iter(DataLoader(_Numbered(draw), batch_size=None, sampler=numbers, num_workers=workers, prefetch_factor=4))
