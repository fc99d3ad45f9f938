"""Sorting beyond the training lengths with more data, with and without hints (Task hinting, Figures 3.2, 3.5)."""

from __future__ import annotations

from typing import Any

from workbench.studies import sorting_lengths
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect
from workbench.studies.sorting_lengths import ACCURACY, BEYOND, HINTS, PLAIN, SHORTER, TWICE
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study

SIZES = {SMALL: (2_000, 20_000, 200_000), PAPER: (1_000_000, 10_000_000, 40_000_000, 160_000_000)}


def group(name: str, size: int) -> str:
    """The name of a group."""
    return f"{name}, train_size {size}"


def sweep(scale: str, settings: dict[str, Any], plain: str, hints: str) -> dict[str, Any]:
    """With and without hints, with training sets of every size."""
    twice = TWICE if scale == SMALL else {}
    variants = [{"name": PLAIN, "preset": plain}, {"name": HINTS, "preset": hints, "settings": twice}]
    return {"settings": settings, "grid": {"train_size": list(SIZES[scale])}, "variants": variants}


def contrasts(scale: str) -> tuple[Higher, ...]:
    """More data against few, with and without hints; and hints against none, with most data."""
    few, many = SIZES[scale][0], SIZES[scale][-1]
    pairs = (((PLAIN, many), (PLAIN, few)), ((HINTS, many), (HINTS, few)), ((HINTS, many), (PLAIN, many)))
    return tuple(Higher(ACCURACY, group(*more), group(*less), at=BEYOND[scale]) for more, less in pairs)


def draw(groups: Groups) -> Figure:
    """Whole sequences right, by length, for every size without hints (Figure 3.2)."""
    plain = [name for name in groups if name.startswith(f"{PLAIN},")]
    return by_dim(
        groups, ACCURACY, "Sorting without hints, by size of the training set", "share of sequences right", plain
    )


def draw_hints(groups: Groups) -> Figure:
    """Whole sequences right, by length, for every size with hints (Figure 3.5)."""
    hints = [name for name in groups if name.startswith(f"{HINTS},")]
    return by_dim(
        groups, ACCURACY, "Sorting with hints, by size of the training set", "share of sequences right", hints
    )


STUDY = Study(
    question="Do more data sort sequences longer than those trained on, with successor hints more than without?",
    source=Source("Task hinting", "Figures 3.2 and 3.5"),
    runs={
        SMALL: sweep(SMALL, SHORTER, "sort-standard", "sort-hints"),
        PAPER: sweep(PAPER, {}, "paper/sort", "paper/sort-hints"),
    },
    measure=Inspect((ACCURACY,), n=512),
    contrasts=contrasts(SMALL),
    contrasts_at={PAPER: contrasts(PAPER)},
    draw=(draw, draw_hints),
    seeds={SMALL: 3, PAPER: 3},
    because={
        "steps": sorting_lengths.STUDY.because["steps"],
        "train_size": "smaller sets, as fits so many steps: the smallest is seen 128 times, the largest 1.3 times",
    },
    tune={"learning_rate": [1e-3]},
)
