"""Edit distance of decoded answers: how many tokens would have to change, by length, or how else the answers group.

Shows: how far off the answers are that the model writes itself, greedily, from the question alone: the insertions,
deletions and replacements that make the right answer of it (Levenshtein). Does not show: which tokens these are, nor
how many answers are right (see `exact_match`); longer answers have more to get wrong. Nothing marks an answer's end: as
many tokens are read as the right answer has. Control: the same decoded answers beside the right answers of other
examples (`mismatched`).
"""

from __future__ import annotations

from workbench.capture import Capture
from workbench.instruments.answers.decoded import measured_answers, needs, why_not
from workbench.measurement import Measurement
from workbench.tasks.answers import Answers

CONTROLS = ("mismatched",)
ON_REQUEST = True  # decoding runs the model once for every token of the answers

__all__ = ["CONTROLS", "ON_REQUEST", "measure", "needs", "why_not"]


def measure(capture: Capture) -> Measurement:
    """Edit distance of each decoded answer, in tokens: dims the task's group (`length`), `example`.

    Tasks that break single positions down, such as multiplication, have the dim `example` alone. NaN at the groups that
    a sequence is not in.
    """
    caption = "Edit distance of answers from the right ones."
    return measured_answers(capture, Answers.edit_distance, "Edit distance", "tokens", caption)
