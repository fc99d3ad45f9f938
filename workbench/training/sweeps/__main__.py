"""A worker process: it makes one attempt at a job, whose kind and config it is given."""

from __future__ import annotations

import sys

from workbench.training.sweeps.job import Job
from workbench.util.child_processes import work


def kind_of_job(name: str) -> type[Job]:
    """A kind of job by the module and name of its class; no other is imported."""
    if name == "workbench.training.finetune_job:FinetuneJob":
        from workbench.training.finetune_job import FinetuneJob

        return FinetuneJob
    assert name == "workbench.training.sweeps.jobs:RunJob", name
    from workbench.training.sweeps.jobs import RunJob

    return RunJob


if __name__ == "__main__":
    work(kind_of_job(sys.argv[2]).work)
