"""When a model grokked: what excluded loss and test accuracy say of the order in which they move; fields alone.

Read from `inspection.progress_measures.progress_measures` (Nanda and others 2023, arXiv 2301.05217).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.measurement import Measurement

GROKKED = 0.9  # test accuracy


def early_rise(measured: Measurement) -> tuple[int, int, float] | None:
    """How far the excluded loss rises while held-out answers are still missing.

    Args:
        measured: `progress_measures(…)`.

    Returns the first checkpoint at which `GROKKED` of the questions trained on are right, the last one after it before
    half of the held-out ones are, and by how many nats the loss rises between the two, from its least there to the
    greatest after that; None if fewer than two checkpoints lie there.
    """
    steps = [int(step) for step in measured.coords["step"]]
    seen, held_out, excluded = (
        measured.select(curve=curve).values for curve in ("train accuracy", "test accuracy", "excluded loss")
    )
    if not (seen >= GROKKED).any():
        return None
    start = int((seen >= GROKKED).argmax())
    end = int((held_out >= 0.5).argmax()) if (held_out >= 0.5).any() else len(steps)
    if end - start < 2:
        return None
    between = excluded[start:end]
    least = int(between.argmin())
    return steps[start], steps[end - 1], float(between[least:].max() - between[least])


@dataclass(frozen=True)
class HalfWay:
    """When the excluded loss and the test accuracy are half way to where they are once the model has grokked.

    Attributes:
        start: the step with the least excluded loss before `end`.
        end: the first step at which test accuracy is `GROKKED`.
        rise: of the excluded loss between the two, in nats.
        excluded: the first step from `start` on at which that loss is half way to its value at `end`; None if it is
            least at `end`, so that it does not rise.
        accuracy: the same of test accuracy.
    """

    start: int
    end: int
    rise: float
    excluded: int | None
    accuracy: int


def half_way(measured: Measurement) -> HalfWay | None:
    """When excluded loss and test accuracy are half way; None where test accuracy never is `GROKKED`, or always was.

    Args:
        measured: `progress_measures(…)`.
    """
    steps = [int(step) for step in measured.coords["step"]]
    right, excluded = (measured.select(curve=curve).values for curve in ("test accuracy", "excluded loss"))
    if not (right >= GROKKED).any() or right[0] >= GROKKED:
        return None
    end = int((right >= GROKKED).argmax())
    start = int(excluded[: end + 1].argmin())
    rise = float(excluded[end] - excluded[start])
    first = _half_way_between(excluded, start, end) if rise > 0 else None
    begin = start if right[start] < right[end] else 0
    return HalfWay(
        steps[start],
        steps[end],
        rise,
        None if first is None else steps[first],
        steps[_half_way_between(right, begin, end)],
    )


def _half_way_between(curve: np.ndarray, start: int, end: int) -> int:
    """The first index from `start` on at which a curve is half way from its value there to that at `end`."""
    gone = (curve[start : end + 1] - curve[start]) / (curve[end] - curve[start])
    return start + int((gone >= 0.5).argmax())
