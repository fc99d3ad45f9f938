"""What is made of a subject so that nothing that is asked of it is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from workbench.benchmark.subjects import Planted
from workbench.measurement.controls.untrained import shuffled, untrained
from workbench.models import Decoder
from workbench.tasks import Batch, Task, Truth
from workbench.util.lookup import lookup
from workbench.util.seeds import generator

NULLS = {"re-initialised": untrained, "weights shuffled": shuffled}
"""What is made of a subject's model so that it knows nothing -> how."""
LABELS = "labels shuffled"  # the model is as it was, and its task's labels tell nothing of the tokens


def null_of(planted: Planted, null: str, seed: int) -> Planted:
    """A subject of which nothing is true: one of `NULLS`, or `LABELS`.

    Raises:
        ValueError: if there is no such null.
    """
    if null == LABELS:
        return replace(planted, made_for=_with_labels_dealt(planted.made_for, seed))
    model = lookup(NULLS, null, "null")(planted.decoder, generator(seed, "null", null))
    return replace(planted, decoder=cast(Decoder, model))


def _with_labels_dealt(task: Task, seed: int) -> Task:
    """The same task, whose labels are dealt anew among all places of a batch that have one."""

    def truth(self: Task, tokens: Tensor) -> Truth:
        found, order, dealt = task.truth(tokens), generator(seed, "labels dealt"), {}
        for name, label in found.labels.items():
            values = label[label >= 0]
            dealt[name] = label.masked_scatter(label >= 0, values[torch.randperm(len(values), generator=order)])
        return replace(found, labels=dealt)

    def draw(self: Task, *given: Any, **how: Any) -> Batch:
        return task.draw(*given, **how)  # its answers are right

    of: Callable[..., Task] = type(type(task).__name__, (type(task),), {"truth": truth, "draw": draw})
    return of(**task.model_dump())
