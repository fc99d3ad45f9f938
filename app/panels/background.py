"""Measurements that take seconds, made beside the page, so that it is there before they are; one at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock, get_native_id, local
from time import monotonic
from typing import Any

import torch

MOST = 64  # results that are kept
NICE = 10  # of 19


@dataclass(frozen=True)
class Job:
    """A measurement that was asked for.

    Attributes:
        future: its result, or the error that it ended with.
        told: what it said last of how far it is; nothing before it began.
        asked: when, on the clock of `time.monotonic`.
    """

    future: Future[Any]
    told: list[str] = field(default_factory=list)
    asked: float = field(default_factory=monotonic)

    @property
    def seconds(self) -> float:
        """How long ago it was asked for."""
        return monotonic() - self.asked


_jobs: dict[Hashable, Job] = {}
_measuring = local()
_lock = Lock()


def _give_way() -> None:
    """Let clicks be answered first: this thread, and those that it starts, are nicer than the others."""
    with suppress(AttributeError, OSError):  # where a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICE)
    torch.set_num_threads(1)  # two threads that both compute on all cores wait for each other most of the time


_one = ThreadPoolExecutor(1, "measuring", initializer=_give_way)


def job(key: Hashable) -> Job | None:
    """What was asked for under this key, if anything was."""
    with _lock:
        return _jobs.get(key)


def ask(key: Hashable, measure: Callable[[], Any]) -> Job:
    """Have something measured, once for each key; what waits for its turn gives way to it.

    Whoever asks for something new looks at that now; what was asked for before and has not begun is begun when it is
    asked for again.
    """
    with _lock:
        if key in _jobs:
            return _jobs[key]
        for other in [other for other, waiting in _jobs.items() if waiting.future.cancel()]:
            del _jobs[other]
        while len(_jobs) >= MOST:
            del _jobs[next(iter(_jobs))]
        told: list[str] = []
        _jobs[key] = Job(_one.submit(_run, measure, told), told)
        return _jobs[key]


def _run(measure: Callable[[], Any], told: list[str]) -> Any:
    _measuring.told = told
    return measure()


def tell(words: str) -> None:
    """Say how far the measurement is that calls this, to the pages that wait for it; elsewhere nothing happens."""
    told: list[str] | None = getattr(_measuring, "told", None)
    if told is not None:
        told[:] = [words]
