"""Batches by number, in order, drawn here or ahead by worker processes: the same batches either way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch.utils.data import DataLoader, Dataset

from workbench.tasks.base import Batch


@dataclass(frozen=True)
class _Numbered(Dataset[Batch]):
    draw: Callable[[int], Batch]

    def __getitem__(self, number: int) -> Batch:
        return self.draw(number)


def in_order(draw: Callable[[int], Batch], numbers: range, workers: int) -> Iterator[Batch]:
    """`draw(number)` for each number.

    Args:
        draw: a function of the number alone; it is sent to the workers, so it must pickle.
        numbers: which batches.
        workers: processes that draw ahead; 0 draws here.
    """
    if not workers:
        return map(draw, numbers)
    return iter(DataLoader(_Numbered(draw), batch_size=None, sampler=numbers, num_workers=workers, prefetch_factor=4))
