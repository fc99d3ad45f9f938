"""`python -m workbench` is the `workbench` command."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:  # noqa: PTH109
    # `-m` puts the current folder first, which may hold a stranger's modules; pathlib would be one of them.
    del sys.path[0]

from workbench.cli import main

sys.exit(main())
