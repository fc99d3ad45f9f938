"""Accuracy of each digit of the product, beside the operations that it takes (Seq-VCR, Figures 1 and 6)."""

from __future__ import annotations

from typing import Any

from workbench.studies import multiplication_methods
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect
from workbench.studies.multiplication_methods import VANILLA
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study
from workbench.tasks import make
from workbench.util.seeds import generator

ACCURACY = "accuracy"
DIGITS = {SMALL: 2, PAPER: 4}  # of each operand


def operations(digits: int) -> dict[int, int]:
    """Digit of the product -> how many digit products its column adds, from the task's own truth."""
    task: Any = make("multiplication", digits=digits)
    labels = task.truth(task.sample(1, generator(0, "operations")).tokens).labels
    places, counts = (labels[name][0].tolist() for name in ("digit", "operations"))
    return {place: count for place, count in zip(places, counts, strict=True) if place >= 0}


def contrasts(scale: str) -> tuple[Higher, ...]:
    """The lowest and the highest digit above the one that takes the most operations, in the middle."""
    middle, highest = {"digit": DIGITS[scale] - 1}, {"digit": 2 * DIGITS[scale] - 1}
    return tuple(Higher(ACCURACY, VANILLA, VANILLA, at=end, than_at=middle) for end in ({"digit": 0}, highest))


def draw(groups: Groups) -> Figure:
    """Accuracy by digit as lines, the operations behind each digit as bars on an axis of their own."""
    from workbench.figures.style import GREY

    figure = by_dim(groups, ACCURACY, "Multiplication: accuracy and operations by digit", "share of digits right")
    n_digits = max(len(own[ACCURACY].coords["digit"]) for own in groups.values() if ACCURACY in own)
    counts = operations(n_digits // 2)
    bars = {"marker": {"color": GREY, "opacity": 0.35}, "yaxis": "y2", "name": "digit products added"}
    figure.add_bar(x=list(counts), y=list(counts.values()), **bars)
    axis = {"overlaying": "y", "side": "right", "title": "digit products added", "showgrid": False}
    axis |= {"range": [-0.06 * max(counts.values()), 2.1 * max(counts.values())], "tickmode": "linear", "dtick": 1}
    return figure.update_layout(yaxis2=axis)


STUDY = Study(
    question="Is accuracy lowest at the digits that take the most operations?",
    source=Source("Seq-VCR", "Figures 1 and 6"),
    runs=multiplication_methods.STUDY.runs,
    runs_of="multiplication-methods",
    measure=Inspect((ACCURACY,), n=512),
    contrasts=contrasts(SMALL),
    contrasts_at={PAPER: contrasts(PAPER)},
    draw=draw,
    seeds=multiplication_methods.STUDY.seeds,
    because=multiplication_methods.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
