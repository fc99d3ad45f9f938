"""What every mechanism needs: whether a model and its task are such that the claim can be tested."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.capture import Subject, sample_truth


def missing(subject: Subject, labels: Sequence[str], layers: int = 1) -> str | None:
    """Why a claim over these labels and this many layers cannot be tested, in one line; None if it can."""
    if subject.n_layers < layers:
        return f"needs {layers} layers, the model has {subject.n_layers}"
    absent = [label for label in labels if label not in sample_truth(subject).labels]
    if absent:
        return f"the task {subject.task.name} has no label {absent[0]!r}"
    return None
