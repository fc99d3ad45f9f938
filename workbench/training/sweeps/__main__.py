"""A worker process: it makes one attempt at a job, whose kind and config it is given."""

from __future__ import annotations

import sys
from importlib import import_module

from workbench.util.child_processes import work

if __name__ == "__main__":
    module, _, kind = sys.argv[2].partition(":")
    work(getattr(import_module(module), kind).work)
