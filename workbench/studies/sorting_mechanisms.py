"""How often ⊥ holds the minimum, and outputs identity and successor, with and without hints (Figures 4.15, 4.16)."""

from __future__ import annotations

from workbench.studies import sorting_lengths
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import ByCondition
from workbench.studies.sorting_lengths import BEYOND, HINTS, PLAIN
from workbench.studies.study import DAY, GPU, PAPER, SMALL, Figure, Groups, Source, Study

MINIMUM, SUCCESSOR = "minimum", "successor"


def contrasts(scale: str) -> tuple[Higher, ...]:
    """Both claims, with hints against without."""
    return tuple(Higher(claim, HINTS, PLAIN, at=BEYOND[scale]) for claim in (MINIMUM, SUCCESSOR))


def draw(groups: Groups) -> Figure:
    """How often the minimum stands at ⊥, by length (Figure 4.15)."""
    return by_dim(groups, MINIMUM, "The minimum at ⊥, by length", "share of sequences")


def draw_successor(groups: Groups) -> Figure:
    """How often outputs point at themselves and their successor, by length (Figure 4.16)."""
    return by_dim(groups, SUCCESSOR, "Identity and successor at outputs, by length", "share of output positions")


STUDY = Study(
    question="Do hints make the minimum and the successor easier to read, beyond the training lengths?",
    source=Source("Task hinting", "Figures 4.15 and 4.16"),
    runs=sorting_lengths.STUDY.runs,
    runs_of="sorting-lengths",
    measure=ByCondition((MINIMUM, SUCCESSOR), "length", n=128),
    contrasts=contrasts(SMALL),
    contrasts_at={scale: contrasts(scale) for scale in (DAY, GPU, PAPER)},
    draw=(draw, draw_successor),
    seeds=sorting_lengths.STUDY.seeds,
    because=sorting_lengths.STUDY.because,
    tune=sorting_lengths.STUDY.tune,
)
