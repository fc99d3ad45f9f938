"""A worker process of a sweep on this machine: it makes one attempt.

Its argument is the run folder, the first line of its input the config. When the input ends, because the sweep stops or
has died, training stops after the current step and saves.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from workbench.runs import parse_config
from workbench.training.sweeps.attempt import REPORTED, attempt
from workbench.util.child_processes import stop_with_the_input
from workbench.util.messages import brief
from workbench.util.plugins import load_plugins


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored until here, if the sweep runs in the background
    line = b""
    while not line.endswith(b"\n"):  # not sys.stdin: its buffer would take input that a thread waits for
        part = os.read(0, 65536)
        if not part:
            return
        line += part
    stop_with_the_input()
    try:
        load_plugins()
        attempt(parse_config(json.loads(line)), Path(sys.argv[1]))
    except REPORTED as error:
        sys.exit(brief(error))
    except KeyboardInterrupt:
        pass  # stopped before the first step


main()
