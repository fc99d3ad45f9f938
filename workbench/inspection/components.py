"""Principal components of a run's residuals on held-out sequences, by a label of the task's truth."""

from __future__ import annotations

import torch

from workbench.capture import Subject, capture
from workbench.inspection import test_batches
from workbench.instruments.residual import components as instrument
from workbench.instruments.residual.components import Components
from workbench.instruments.residual.projection import from_embedding
from workbench.runs import Run
from workbench.tasks import Task
from workbench.util.lookup import lookup
from workbench.util.seeds import generator


def label_names(task: Task) -> list[str]:
    """The labels of a task's truth; none of a task that has none."""
    return list(task.truth(task.sample(2, generator(0, "labels of the truth")).tokens).labels)


@torch.no_grad()
def components(
    run: Run, *, label: str, n: int, seed: int, point: str | None = None, k: int = 3, step: int | None = None
) -> Components:
    """Principal components of the rows that have a label, over n held-out sequences of each test condition.

    Args:
        run: the run.
        label: one of the task's truth; see `label_names`.
        n, seed: of the sequences, as for `inspect_run`.
        point: a residual's hook name; by default the last.
        k: how many components.
        step: of which checkpoint; by default the end.

    Raises:
        ValueError: if there is no such point, label or checkpoint, or too few rows have the label.
    """
    model, task = run.model(step), run.task()
    subject = Subject.of(model, task, run.name_at(step))
    points = from_embedding(subject)
    name = points[-1] if point is None else point
    lookup(dict.fromkeys(points, True), name, "point of the residual")
    seen = [capture(model, subject, batch, [name]) for _, _, batch in test_batches(task, n, seed)]
    return instrument.measure(seen, point=name, label=label, k=k)
