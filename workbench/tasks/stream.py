"""Batches by number, in order, drawn here or ahead by worker processes: the same batches either way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from torch.utils.data import DataLoader, Dataset

Asked = TypeVar("Asked")
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class _Drawing(Dataset[Drawn], Generic[Asked, Drawn]):
    draw: Callable[[Asked], Drawn]

    def __getitem__(self, asked: Asked) -> Drawn:
        return self.draw(asked)


def in_order(draw: Callable[[Asked], Drawn], asked: Iterable[Asked], workers: int) -> Iterator[Drawn]:
    """`draw(one)` for each one that is asked for, such as a number.

    Args:
        draw: a function of that alone; it is sent to the workers, so it must pickle.
        asked: which batches.
        workers: processes that draw ahead; 0 draws here.
    """
    if not workers:
        return map(draw, asked)
    return iter(DataLoader(_Drawing(draw), batch_size=None, sampler=asked, num_workers=workers, prefetch_factor=4))
