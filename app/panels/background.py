"""Measurements that take seconds, made beside the page, so that it is there before they are; one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, get_native_id
from time import monotonic
from typing import Any

import torch

MOST = 64  # results that are kept
# Of 19, not more: while this thread holds the interpreter's lock every page waits for it, and a machine that is busy
# with other work lets a thread of priority 10 wait for seconds.
NICE = 2  # above the server's own, which may be nice already
LEAST = 2.0  # seconds of a part after which it is said how long the rest of it takes


@dataclass
class Job:
    """A measurement that was asked for.

    Attributes:
        future: its result, or the error that it ended with.
        told: what it said last of how far it is; nothing before it began.
        asked: when, on the clock of `time.monotonic`.
        so_far: what is known before the result is; None while nothing is.
        began: when the part began that is being measured now.
        share: of that part, how much is done.
    """

    future: Future[Any] = field(default_factory=Future)
    told: str = ""
    asked: float = field(default_factory=monotonic)
    so_far: Any = None
    began: float = field(default_factory=monotonic)
    share: float = 0.0

    @property
    def seconds(self) -> float:
        """How long ago it was asked for."""
        return monotonic() - self.asked

    @property
    def left(self) -> float | None:
        """How many seconds the part takes from here, by what was done of it so far; None while that tells nothing."""
        took = monotonic() - self.began
        return took * (1 - self.share) / self.share if self.share and took > LEAST else None

    def tell(self, share: float) -> None:
        """How much is done of the part that is being measured."""
        self.share = share

    def say(self, words: str) -> None:
        """How far it is where that is no share: `64 of 512 pairs`."""
        self.told = words


_jobs: dict[Hashable, Job] = {}
_lock = Lock()


def _give_way() -> None:
    """Let clicks be answered first: this thread, and those that it starts, are nicer than the others."""
    with suppress(AttributeError, OSError):  # where a thread has no priority of its own
        own = get_native_id()
        os.setpriority(os.PRIO_PROCESS, own, os.getpriority(os.PRIO_PROCESS, own) + NICE)
    torch.set_num_threads(1)  # two threads that both compute on all cores wait for each other most of the time


_one = ThreadPoolExecutor(1, "measuring", initializer=_give_way)


def job(key: Hashable) -> Job | None:
    """What was asked for under this key, if anything was."""
    with _lock:
        return _jobs.get(key)


def ask(key: Hashable, measure: Callable[[Job], Iterator[Any]]) -> Job:
    """Have something measured, part by part, once for each key; what waits for its turn gives way to it.

    Whoever asks for something new looks at that now; what was asked for before and has not begun is begun when it is
    asked for again.

    Args:
        key: of the measurement.
        measure: gives ever more of what is measured, at last all of it; it may tell the job how far it is.
    """
    with _lock:
        if key in _jobs:
            return _jobs[key]
        for other in [other for other, waiting in _jobs.items() if waiting.future.cancel()]:
            del _jobs[other]
        while len(_jobs) >= MOST:
            del _jobs[next(iter(_jobs))]
        asked = _jobs[key] = Job()
        asked.future = _one.submit(_measured, asked, measure)
        return asked


def _measured(asked: Job, measure: Callable[[Job], Iterator[Any]]) -> Any:
    asked.began = monotonic()
    for so_far in measure(asked):
        asked.so_far, asked.began, asked.share = so_far, monotonic(), 0.0
    return asked.so_far
