"""How long work will still take, told on standard error to whoever waits for it, and Ctrl-C that keeps what is done.

Whatever goes through pieces of work says so with `steps`, wherever it is; whoever a person waits for opens `shown`.
Nothing is told of what is done in ten seconds, nor where nobody opened it.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from workbench.util.messages import Notice, brief

LONG = 10.0  # seconds: of shorter work nothing is told
BETWEEN_LINES = 10.0  # seconds, where there is no terminal

T = TypeVar("T")


class Interrupts:
    """Remembers Ctrl-C, SIGTERM (a cluster's) and SIGHUP (a closed terminal's) until a piece of the work is done.

    A second one raises KeyboardInterrupt at once. Python alone raises it at the first, wherever it is: within a queue
    to the processes that draw batches, a lock then stays taken for which ending those processes waits for ever.
    """

    requested = False
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __enter__(self) -> Interrupts:
        self.before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            # A signal that `nohup` has set to be ignored stays ignored.
            handled = [n for n in self.signals if n != signal.SIGHUP or signal.getsignal(n) != signal.SIG_IGN]
            self.before = {number: signal.signal(number, self._request) for number in handled}
        return self

    def _request(self, *_: Any) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(self, *_: Any) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


@dataclass
class _Display:
    """What is told of the work that is under way: one bar, or lines where there is no terminal."""

    console: Console
    bar: Progress | None = None
    started: float = field(default_factory=time.monotonic)
    told: float = 0.0
    keeps: bool = False
    whole: bool = False
    stopped: bool = False
    open: list[tuple[int, int]] = field(default_factory=list)  # pieces done of how many, from outer to inner

    @property
    def share(self) -> float:
        """The share of the outermost work that is done."""
        share, span = 0.0, 1.0
        for done, n in self.open:
            share, span = share + span * done / n, span / n
        return share

    @contextmanager
    def open_work(self, n: int, keep: bool) -> Iterator[Interrupts | None]:
        """Work of n pieces, within the piece of other work that is under way; where it keeps, Ctrl-C is minded."""
        if not self.open:
            self.started, self.told = time.monotonic(), 0.0
        self.open.append((0, n))
        self.keeps |= keep
        try:
            with Interrupts() if keep else nullcontext() as interrupts:
                yield interrupts
        finally:
            self.open.pop()
            if not self.open:
                self.keeps = False
                if self.bar is not None:
                    self.bar.stop()
                    self.bar = None

    def tell(self, what: str) -> None:
        """Say how long it will take, as soon as that can be told; then how much is left."""
        now, share = time.monotonic(), self.share
        whole = (now - self.started) / share
        if not self.told and whole < LONG:
            return
        if not self.told:
            self.told = now
            keeps = "; Ctrl-C keeps what is done" if self.keeps or self.whole else ""
            self.console.print(f"{brief(what)}: about {duration(whole)}{keeps}", highlight=False, soft_wrap=True)
            if self.console.is_terminal and not self.console.quiet:
                columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
                self.bar = Progress(*columns, console=self.console)
                self.bar.start()
                self.bar.add_task(what, total=1.0)
        if self.bar is not None:
            self.bar.update(self.bar.task_ids[0], completed=share, description=brief(what))
        elif now - self.told > BETWEEN_LINES and share < 1:
            self.told = now
            left = duration(whole * (1 - share))
            self.console.print(f"{brief(what)}: {share:.0%}, {left} left", highlight=False, soft_wrap=True)


_display: ContextVar[_Display | None] = ContextVar("display", default=None)


@contextmanager
def shown(show: bool = True, *, quiet: bool = False) -> Iterator[None]:
    """Within this context long work tells how long it takes, unless quiet, and Ctrl-C keeps what is done."""
    if not show or _display.get() is not None:
        yield
        return
    token = _display.set(_Display(Console(stderr=True, markup=False, quiet=quiet)))
    try:
        yield
    finally:
        _display.reset(token)


@contextmanager
def untold() -> Iterator[None]:
    """Within this context nothing is told: what is done there is a piece of work that is told of as a whole."""
    token = _display.set(None)
    try:
        yield
    finally:
        _display.reset(token)


def steps(items: Sequence[T] | Iterable[T], what: str, n: int | None = None, *, keep: bool = False) -> Iterator[T]:
    """The items one by one, with what is told of them where `shown`.

    Args:
        items: pieces of work.
        what: what is being done, as in `fitting probes`.
        n: how many there are, of items that do not know.
        keep: whether the pieces that are done are of use without the others: Ctrl-C then ends the iteration after the
            piece that it is at, and a second Ctrl-C ends everything.
    """
    display = _display.get()
    if display is None:
        yield from items
        return
    n = len(items) if n is None else n  # type: ignore[arg-type]
    with display.open_work(max(1, n), keep) as interrupts:
        for done, item in enumerate(items, 1):
            yield item
            display.open[-1] = (done, max(1, n))
            display.stopped |= interrupts is not None and interrupts.requested
            if keep and display.stopped and done < n:
                warnings.warn(f"interrupted: {what} ended after {done} of {n}; what is done is kept", Notice, 2)
                return
            display.tell(what)


@contextmanager
def done_whole() -> Iterator[None]:
    """Within this context Ctrl-C waits until all is done, and `interrupted` says then that nothing more is wanted.

    A second one ends everything. Other work that tells how long it takes may be within.
    """
    display = _display.get()
    if display is None:
        yield
        return
    display.whole = True
    try:
        with Interrupts() as interrupts:
            yield
            display.stopped |= interrupts.requested
    finally:
        display.whole = False


def interrupted() -> bool:
    """Whether Ctrl-C has ended work within `shown` that keeps what was done until there."""
    display = _display.get()
    return display is not None and display.stopped


def duration(seconds: float) -> str:
    """How long something takes: `5 min`, or `30 s`."""
    return f"{seconds / 60:.0f} min" if seconds > 90 else f"{seconds:.0f} s"
