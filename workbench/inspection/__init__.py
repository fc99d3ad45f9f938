"""Inspection of a run: every instrument and mechanism that applies, with its controls."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.capture import Capture, Subject, capture
from workbench.inspection.measures import MOST_HOPS, Settings
from workbench.inspection.one_run import hook_names, inspect_model, inspect_run, test_batches
from workbench.inspection.result import CausalResult, ControlResult, Inspected, Result, Sample
from workbench.runs import Run
from workbench.tasks import Batch
from workbench.util.lookup import tell_apart
from workbench.util.messages import harmless

__all__ = [
    "MOST_HOPS",
    "CausalResult",
    "ControlResult",
    "Inspected",
    "Result",
    "Sample",
    "Settings",
    "hook_names",
    "inspect_model",
    "inspect_run",
    "labels",
    "see",
    "test_batches",
]


def see(run: Run, batch: Batch, *, step: int | None = None) -> Capture:
    """A run's activations on one batch: all that instruments, mechanisms and figures need.

    Args:
        run: the run.
        batch: what to run on: `run.task().parse("5 3 3 9")`, or `run.batch(8)`.
        step: of which checkpoint; by default the end.
    """
    model = run.model(step)
    subject = Subject.of(model, run.task(), run.name_at(step))
    from workbench.models.hooked import hook

    return capture(hook(model), subject, batch, hook_names(subject))


def labels(opened: Sequence[Run]) -> list[str]:
    """A name for each run: its folder's, with as many of the folders above as tell them apart.

    Where names differ only in case (`run`, `Run`), which some file systems ignore, the later ones are numbered.

    Raises:
        ValueError: if a run is there twice.
    """
    parts = [run.path.resolve().parts[1:] for run in opened]
    if len(set(parts)) < len(parts):
        raise ValueError(f"a run was named twice; these are {', '.join(run.name for run in opened)}")
    depth = 1
    while len({part[-depth:] for part in parts}) < len(parts):
        depth += 1
    return tell_apart([harmless("/".join(part[-depth:])) for part in parts])
