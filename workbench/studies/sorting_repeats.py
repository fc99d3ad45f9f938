"""Sorting sequences in which each symbol comes r times, with and without hints (Task hinting, Figures 3.8, 3.9)."""

from __future__ import annotations

from workbench.studies import sorting_lengths
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import ByCondition
from workbench.studies.sorting_lengths import ACCURACY, EDITS, HINTS, PLAIN
from workbench.studies.study import Figure, Groups, Source, Study

REPEATS = (1, 2, 3, 4, 5)


def draw(groups: Groups) -> Figure:
    """Whole sequences right, by repeats (Figure 3.8)."""
    return by_dim(groups, ACCURACY, "Sorting rep(i, r): whole sequences right", "share of sequences right")


def draw_edits(groups: Groups) -> Figure:
    """Edit distance of the decoded answers, by repeats (Figure 3.9)."""
    return by_dim(groups, EDITS, "Sorting rep(i, r): edit distance of decoded answers", "tokens to change")


STUDY = Study(
    question="Do hints help on sequences in which symbols repeat, twice as long as any trained on?",
    source=Source("Task hinting", "Figures 3.8 and 3.9"),
    runs=sorting_lengths.STUDY.runs,
    runs_of="sorting-lengths",
    measure=ByCondition((ACCURACY, EDITS), "repeats", values=REPEATS, times_longest=2, n=128),
    contrasts=tuple(Higher(ACCURACY, HINTS, PLAIN, at={"repeats": r}) for r in REPEATS[1:]),
    draw=(draw, draw_edits),
    seeds=sorting_lengths.STUDY.seeds,
    because=sorting_lengths.STUDY.because,
    tune=sorting_lengths.STUDY.tune,
)
