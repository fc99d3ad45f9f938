"""Which positions count as the answer: those of the answer alone, or all that are scored, a chain of thought too."""

from __future__ import annotations

from typing import Literal, get_args

from workbench.capture import Capture
from workbench.tasks import Batch

Of = Literal["answer", "all"]


def scored(capture: Capture, of: Of) -> Batch:
    """A capture's batch, its loss mask true at the positions that count. Raises ValueError if `of` is unknown."""
    if of not in get_args(Of):
        raise ValueError(f"of is {' or '.join(map(repr, get_args(Of)))}, not {of!r}")
    return capture.subject.task.answer_alone(capture.batch) if of == "answer" else capture.batch


def scored_in_words(capture: Capture, of: Of) -> str:
    """What does not count, for captions; nothing where there is no chain of thought."""
    thought = bool((capture.subject.task.answer_mask(capture.batch) != capture.batch.loss_mask).any())
    if not thought:
        return ""
    return " (the chain of thought before the answer does not count)" if of == "answer" else " (a chain of thought too)"
