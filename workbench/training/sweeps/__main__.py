"""A worker process: it makes one attempt at a job, whose kind and config it is given."""

from __future__ import annotations

import sys

from workbench.training.sweeps.job import Job
from workbench.util.child_processes import work

if __name__ == "__main__":
    kind: type[Job]  # by the module and name of its class; no other is imported
    if sys.argv[2] == "workbench.training.finetune_job:FinetuneJob":
        from workbench.training.finetune_job import FinetuneJob

        kind = FinetuneJob
    else:
        assert sys.argv[2] == "workbench.training.sweeps.jobs:RunJob", sys.argv[2]
        from workbench.training.sweeps.jobs import RunJob

        kind = RunJob
    work(kind.work)
