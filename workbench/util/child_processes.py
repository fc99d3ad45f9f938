"""Child processes: they import nothing from the current folder, and end when this process has ended."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.util.messages import brief
from workbench.util.plugins import load_plugins

# Errors that training raises with a message of one line. Any other is a bug, and its traceback is shown.
REPORTED = (ValueError, RuntimeError, OSError)


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module; with `-P`, Python does not import a `safetensors.py` from the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def work(do: Callable[[Any, Path], None]) -> None:
    """What a process of `training.sweeps.local.Workers` does.

    Its first argument is a folder, the first line of its input the order, as JSON. When the input ends, because what
    started the process stops or has died, it is asked to end (SIGTERM): training then saves.

    Args:
        do: what is done with the order and the folder. An error of training becomes the process's last line.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored until here, if the parent is in the background
    line = b""
    while not line.endswith(b"\n"):  # not sys.stdin: its buffer would take input that a thread waits for
        part = os.read(0, 65536)
        if not part:
            return
        line += part
    stop_with_the_input()
    try:
        load_plugins()
        do(json.loads(line), Path(sys.argv[1]))
    except REPORTED as error:
        sys.exit(brief(error))
    except KeyboardInterrupt:
        pass  # stopped before the first step


def stop_with_the_input() -> None:
    """Ask this process to end (SIGTERM) when its standard input does: then the process that started it has ended.

    Training handles the signal and saves. Before that nothing is to be saved, and the signal ends the process at once:
    SIGINT would raise KeyboardInterrupt, which is lost where an import, or a callback from C, catches every exception.
    """

    def end_with_the_input() -> None:
        while os.read(0, 65536):  # not sys.stdin: Python fails at exit if a thread is reading it
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_the_input, daemon=True).start()
