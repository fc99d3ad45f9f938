"""A worker process of a sweep on this machine: it makes one attempt at a run, whose config it is given."""

from __future__ import annotations

from workbench.runs import parse_config
from workbench.training.sweeps.attempt import attempt
from workbench.util.child_processes import work

work(lambda config, folder: attempt(parse_config(config), folder))
