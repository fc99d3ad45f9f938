"""Batches by number, in order, drawn here or ahead by worker processes: the same batches either way."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

FOR_ALL = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # what a terminal or a cluster sends to all of a job
SECONDS_TO_END = 5  # after a SIGTERM of an unknown sender: meanwhile what a worker draws for saves

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
    with _held_back():  # a worker that is only starting would obey
        return iter(loader)


@contextmanager
def _held_back() -> Iterator[None]:
    """Signals wait meanwhile; for good in a process that is started here, until it says otherwise."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _only_while_wanted(_: int) -> None:
    """Leave Ctrl-C and its like, which reach workers too, to the process that draws for; end as soon as it is gone.

    A worker that ends by itself would leave that process waiting for a batch instead of saving. One that goes on, as
    PyTorch's do for seconds, keeps open what it had from that process: the lock on a run folder. SIGTERM is also how
    that process ends a worker which it could not tell to end, interrupted twice: from it, it is obeyed.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "sigwaitinfo"):
        threading.Thread(target=_end_when_told, daemon=True).start()
    else:  # macOS does not say who sent a signal
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(SECONDS_TO_END))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_ALL - {signal.SIGTERM})


def _end_when_told() -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
        pass  # sent to all processes of a terminal or a job
    os._exit(0)  # with anything else PyTorch raises an error in the process that told this one


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])  # a pipe that the system closes, even where the parent could not
    os.kill(os.getpid(), signal.SIGKILL)
