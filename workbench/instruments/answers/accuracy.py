"""Accuracy by group: how right the answers are by length, depth or digit, whichever the task breaks down by.

Shows: where a model fails. Of a chain of thought before an answer, which is given, nothing counts, so that runs with
and without one compare (`of="all"`: all that the loss is on counts). Does not show: how sure it was, or how it got
there. Control: the same logits beside the answers of other examples (`mismatched`), which is what the task's
regularities alone are worth.
"""

from __future__ import annotations

from workbench.capture import Capture
from workbench.instruments.answers.overall import Of, scored
from workbench.instruments.shared import logits_alone, no_reason
from workbench.measurement import Measurement

CONTROLS = ("mismatched",)

needs, why_not = logits_alone, no_reason


def measure(capture: Capture, *, of: Of = "answer") -> Measurement:
    """The task's accuracy of each example in each group: dims the group's name (`depth`, `length`, ...), `example`.

    NaN where an example has no answer in a group. What counts as one answer is the task's `unit`.

    Args:
        capture: with the logits.
        of: `answer`, or `all`: a chain of thought before it too.

    Raises:
        ValueError: if `of` is neither.
    """
    task, (batch, thought) = capture.subject.task, scored(capture, of)
    values = task.accuracy_by_group(capture.logits.cpu(), batch, capture.truth).T.double().numpy()
    return Measurement(
        name=f"Accuracy by {task.group}",
        values=values,
        dims=(task.group, "example"),
        coords={task.group: task.groups},
        units="share",
        settings={"model": capture.subject.name, "unit": task.unit, "of": of},
        caption=f"Share of answers that are right, by {task.group}; an answer is one {task.unit}{thought}.",
    )
