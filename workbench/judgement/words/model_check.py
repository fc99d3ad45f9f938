"""What is said of a check of a hooked model: a line for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.judgement.words.circuits import in_columns
from workbench.measurement.numbers import UNKNOWN

RESULTS = {True: "passed", False: "FAILED"}

Row = tuple[str, str, float | None, float | None, bool | None]
"""What was checked, on what, the number that came out, its bound, and whether it passed; None: it cannot be told."""


def of_checks(name: str, sample: str, rows: Sequence[Row], of_edits: Sequence[bool]) -> list[str]:
    """How many of the checks a model passed, then a line for each.

    Args:
        name, sample: the model, and what it was checked on.
        rows: the checks.
        of_edits: of each whether it is of edits: then the number is the least change, which is more than its bound.
    """
    made = [passed for *_, passed in rows if passed is not None]
    result = f"all {len(made)} checks passed" if all(made) else f"{made.count(False)} of {len(made)} checks FAILED"
    lines = [("check", "tried", "difference", "allowed", "")]
    for (what, how, number, bound, passed), least in zip(rows, of_edits, strict=True):
        written = UNKNOWN if number is None else f"{'≥ ' if least else '≤ '}{number:.1e}"
        allowed = UNKNOWN if bound is None else f"{'> ' if least else '≤ '}{bound:.1e}"
        untold = "not made" if number is None else "cannot be told"
        lines.append((what, how, written, allowed, untold if passed is None else RESULTS[passed]))
    return [f"{name}: {result}, on {sample}.", "", *in_columns(lines)]


READ = (
    "Differences are shares of the largest logit or residual; of edits it is the least that one of them changes. What "
    "the model has learned is not looked at."
)
