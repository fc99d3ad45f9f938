"""Sorting beyond the training lengths with more layers (Task hinting, Figure 3.3)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Contrast, Higher, StaysBelow
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect
from workbench.studies.sorting_lengths import ACCURACY, BEYOND, SHORTER
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study

LAYERS = {SMALL: (2, 4), PAPER: (2, 4, 8, 12)}
FAR = {SMALL: {"length": 30}, PAPER: {"length": 100}}  # three and five times the training lengths


def group(layers: int) -> str:
    """The name of the group with so many layers."""
    return f"plain, n_layers {layers}"


def sweep(scale: str, preset: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Plain models of every depth."""
    layers = {"model.n_layers": list(LAYERS[scale])}
    return {"settings": settings, "variants": [{"name": "plain", "preset": preset, "grid": layers}]}


def contrasts(scale: str) -> tuple[Contrast, ...]:
    """Most layers against two at a length not far beyond; and no depth at one that is."""
    fewest, *_, most = LAYERS[scale]
    far = (StaysBelow(ACCURACY, group(layers), 0.01, at=FAR[scale]) for layers in LAYERS[scale])
    return (Higher(ACCURACY, group(most), group(fewest), at=BEYOND[scale]), *far)


def draw(groups: Groups) -> Figure:
    """Whole sequences right, by length."""
    return by_dim(groups, ACCURACY, "Sorting without hints, by number of layers", "share of sequences right")


STUDY = Study(
    question="Do more layers sort somewhat longer sequences than those trained on, and none much longer ones?",
    source=Source("Task hinting", "Figure 3.3"),
    runs={
        SMALL: sweep(SMALL, "sort-standard", SHORTER),
        PAPER: sweep(PAPER, "paper/sort", {"train_size": 1_000_000}),
    },
    measure=Inspect((ACCURACY,), n=512),
    contrasts=contrasts(SMALL),
    contrasts_at={PAPER: contrasts(PAPER)},
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
    tune={"learning_rate": [1e-3]},
)
