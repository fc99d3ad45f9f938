"""Batches in order, drawn by this process or ahead of time by worker processes: the same batches either way."""

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

FOR_ALL = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}  # sent by a terminal or a cluster to all processes of a job
SECONDS_TO_END = 5  # after a SIGTERM of an unknown sender, so that the process that a worker draws for can save

Key = TypeVar("Key")
Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class _Drawing(Dataset[Drawn], Generic[Key, Drawn]):
    draw: Callable[[Key], Drawn]

    def __getitem__(self, key: Key) -> Drawn:
        return self.draw(key)


def in_order(draw: Callable[[Key], Drawn], keys: Iterable[Key], workers: int) -> Iterator[Drawn]:
    """`draw(key)` for each key, such as the number of a batch, in order.

    Args:
        draw: a function of the key alone; it is sent to the workers, so it must pickle.
        keys: what to draw.
        workers: processes that draw ahead, never more than there are cores: anybody may ask for any number. With 0,
            this process draws. None outlives this process, however it ends.
    """
    check_workers(workers)
    workers = min(workers, os.cpu_count() or 1)
    if not workers:
        return map(draw, keys)
    loader = DataLoader(
        _Drawing(draw),
        batch_size=None,
        sampler=keys,
        num_workers=workers,
        prefetch_factor=4,
        worker_init_fn=_set_signals,
        generator=torch.Generator(),  # seeds of workers, unused, which are else drawn from PyTorch's global generator
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_ALL)  # a worker that is still starting would obey them
    try:
        return iter(loader)  # workers have them blocked until they unblock them
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def check_workers(workers: int) -> None:
    """Raise ValueError unless so many processes can draw."""
    if workers < 0:
        raise ValueError(f"workers must be at least 0, which draws in this process, not {workers}")


def _set_signals(_: int) -> None:
    """Have a worker ignore Ctrl-C and the like, which reach it too, and end as soon as its parent process is gone.

    A worker that obeyed Ctrl-C would leave its parent waiting for a batch instead of saving. A worker that outlived its
    parent, as those of PyTorch do for seconds, would keep the lock on the run folder. SIGTERM is obeyed if the parent
    sends it: a parent that is interrupted twice can end its workers in no other way.
    """

    def end_when_told() -> None:
        while signal.sigwaitinfo({signal.SIGTERM}).si_pid != os.getppid():
            pass  # another sender: it is meant for all processes of a terminal or a job
        os._exit(0)  # any other exit code would raise an error in the parent

    def end_with_the_parent() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        wait([parent.sentinel])  # a pipe, which the system closes even if the parent was killed
        os.kill(os.getpid(), signal.SIGKILL)

    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "sigwaitinfo"):
        threading.Thread(target=end_when_told, daemon=True).start()
    else:  # macOS does not say who sent a signal
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(SECONDS_TO_END))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=end_with_the_parent, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_ALL - {signal.SIGTERM})
