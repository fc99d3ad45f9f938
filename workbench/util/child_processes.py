"""Processes that this one starts: they import nothing from the current folder, and end when this one has ended."""

from __future__ import annotations

import os
import signal
import sys
import threading


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module, with `-P`: the current folder may hold a stranger's `safetensors.py`."""
    return [sys.executable, "-P", "-m", module, *arguments]


def stop_with_the_input() -> None:
    """Have this process interrupted when its input ends: whoever holds the other end has ended, however it did."""
    threading.Thread(target=_wait, daemon=True).start()


def _wait() -> None:
    while os.read(0, 65536):  # not by sys.stdin, which a thread may not be reading when Python ends
        pass
    os.kill(os.getpid(), signal.SIGINT)
