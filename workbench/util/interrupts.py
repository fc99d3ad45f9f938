"""Ctrl-C and the like, minded between two pieces of work."""

from __future__ import annotations

import signal
import threading
from typing import Any


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
