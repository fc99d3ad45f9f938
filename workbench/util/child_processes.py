"""Child processes: they import nothing from the current folder, and end when this process has ended."""

from __future__ import annotations

import os
import signal
import sys
import threading


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module; with `-P`, Python does not import a `safetensors.py` from the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def stop_with_the_input() -> None:
    """Interrupt this process (SIGINT) when its standard input ends: then the process that started it has ended."""
    threading.Thread(target=_interrupt_at_the_end, daemon=True).start()


def _interrupt_at_the_end() -> None:
    while os.read(0, 65536):  # not sys.stdin: Python fails at exit if a thread is reading it
        pass
    os.kill(os.getpid(), signal.SIGINT)
