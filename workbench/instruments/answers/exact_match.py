"""Exact match of decoded answers: how often the model writes the whole answer right, by length, or how else they group.

Shows: what the model does by itself: it writes the answer token by token, greedily, from the question alone, and where
there is a chain of thought that too. Does not show: where a wrong answer goes wrong, or how near it is (see
`edit_distance`). Nothing marks an answer's end: as many tokens are read as the right answer has. Control: the same
decoded answers beside the right answers of other examples (`mismatched`).
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
    """1 where the decoded answer is right throughout, else 0: dims the task's group (`length`), `example`.

    Tasks that break single positions down, such as multiplication, have the dim `example` alone. NaN at the groups that
    a sequence is not in.
    """
    return measured_answers(
        capture, Answers.exact_match, "Exact match", "share", "Share of answers that are right throughout."
    )
