"""Batches by number, in order, drawn here or ahead by worker processes: the same batches either way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

SECONDS_TO_END = 5  # after SIGTERM: what this process draws for finishes its step and saves meanwhile

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
        workers: processes that draw ahead; 0 draws here. None of them outlives this process, however it ends.
    """
    if not workers:
        return map(draw, asked)
    loader = DataLoader(
        _Drawing(draw),
        batch_size=None,
        sampler=asked,
        num_workers=workers,
        prefetch_factor=4,
        worker_init_fn=_only_while_wanted,
        generator=torch.Generator(),  # its workers' seeds, which nothing uses, would be drawn from PyTorch's own
    )
    return iter(loader)


def _only_while_wanted(_: int) -> None:
    """Leave Ctrl-C and its like, which reach workers too, to the process that draws for; end as soon as it is gone.

    A worker that ends by itself would leave that process waiting for a batch instead of saving. One that goes on, as
    PyTorch's do for seconds, keeps open what it had from that process: the lock on a run folder. SIGTERM is also how
    that process ends a worker which it could not tell to end, interrupted twice: it is obeyed, but later.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(SECONDS_TO_END))
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])  # a pipe that the system closes, even where the parent could not
    os.kill(os.getpid(), signal.SIGKILL)
