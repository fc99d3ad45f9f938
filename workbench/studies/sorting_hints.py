"""Which hint helps to sort beyond the training lengths (Task hinting, Figures 3.4, 3.10, 3.11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect
from workbench.studies.sorting_lengths import ACCURACY, BEYOND, SHORTER, SHORTER_STEPS
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study

NONE, SUCCESSOR, COUNT, FILL, ALL = "none", "successor", "count", "fill", "all"
HINTS: dict[str, dict[str, Any]] = {
    NONE: {},
    SUCCESSOR: {"hints": ["successor"], "copies": "itself"},
    COUNT: {"hints": ["count"]},
    FILL: {"hints": ["fill"]},
    ALL: {"hints": ["successor", "count", "fill"], "copies": "itself"},
}


PRESETS = dict(zip(HINTS, ("sort-standard", "sort-hints", "sort-count", "sort-fill", "sort-all-hints"), strict=True))


def sweep(presets: Mapping[str, str], settings: dict[str, Any], steps: int | None = None) -> dict[str, Any]:
    """The same model with each kind of hint; with `steps`, sorting itself gets as many, whatever the hints."""
    variants = []
    for name, hints in HINTS.items():
        own = {} if steps is None else {"steps": steps * (1 + len(hints.get("hints", ())))}
        variants.append({"name": name, "preset": presets[name], "settings": {"task": hints, **own}})
    return {"settings": settings, "variants": variants}


def contrasts(scale: str) -> tuple[Higher, ...]:
    """Successor hints above none and above another; count hints below none."""
    pairs = ((SUCCESSOR, NONE), (NONE, COUNT), (SUCCESSOR, FILL))
    return tuple(Higher(ACCURACY, better, worse, at=BEYOND[scale]) for better, worse in pairs)


def draw(groups: Groups) -> Figure:
    """Whole sequences right, by length (Figure 3.11)."""
    return by_dim(groups, ACCURACY, "Sorting with each kind of hint, by length", "share of sequences right")


STUDY = Study(
    question="Do successor hints help most beyond the training lengths, and count hints harm?",
    source=Source("Task hinting", "Figures 3.4, 3.10 and 3.11"),
    runs={
        SMALL: sweep(PRESETS, SHORTER, steps=SHORTER_STEPS),
        PAPER: sweep(dict.fromkeys(HINTS, "paper/sort"), {}),
    },
    measure=Inspect((ACCURACY,), n=512),
    contrasts=contrasts(SMALL),
    contrasts_at={PAPER: contrasts(PAPER)},
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
    tune={"learning_rate": [1e-3]},
)
