"""What the instruments of decoded answers have in common: what they need, and their values by the task's group."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Int
from torch import Tensor

from workbench.capture import DECODED, Capture, Subject
from workbench.measurement import Measurement
from workbench.tasks.answers import Answers
from workbench.util.seeds import generator


def why_not(subject: Subject) -> str | None:
    """Answers that do not continue a question, or a model that cannot decode."""
    if subject.generate is None:
        return "this model cannot decode: its Subject has no `generate`"
    try:
        answers = Answers.of(subject.task, subject.task.sample(4, generator(0, "decoded answers")))
    except ValueError as error:
        return str(error)
    if max(map(len, answers.prompts)) < 2:
        return "the sequences of this task are all answer: there is no question to continue"
    return None


def needs(subject: Subject) -> list[str]:
    """The decoded answers alone."""
    return [DECODED]


def measured_answers(
    capture: Capture, value: Callable[[Answers, Int[Tensor, "batch pos"]], Tensor], name: str, units: str, caption: str
) -> Measurement:
    """A value of each decoded answer: dims the task's group, if whole sequences have one (`length`), and `example`.

    NaN at the groups that a sequence is not in.

    Args:
        capture: with the decoded answers.
        value: takes the right answers and the decoded ones, and returns a number of each.
        name, units, caption: of the measurement.
    """
    task = capture.subject.task
    values = value(Answers.of(task, capture.batch), capture[DECODED].cpu()).double()
    dims, coords = ["example"], {}
    if task.unit == "sequence":
        values = task.in_groups(values, capture.batch, capture.truth).T
        dims, coords = [task.group, *dims], {task.group: list(task.groups)}
        name = f"{name} by {task.group}"
    return Measurement(
        name=name,
        values=values.double().numpy(),
        dims=tuple(dims),
        coords=coords,
        units=units,
        settings={"model": capture.subject.name, "unit": "answer"},
        caption=f"{caption} The model writes the answer itself, by greedy decoding, and its chain of thought before it "
        "where there is one.",
    )
