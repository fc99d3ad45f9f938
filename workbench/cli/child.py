"""The command line as a process of the explorer, ended when the explorer ends: `python -m workbench.cli.child …`."""

from __future__ import annotations

import signal
import sys

from workbench.cli import main
from workbench.util.child_processes import stop_with_the_input

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, if the server runs in the background
    stop_with_the_input()
    sys.exit(main())
