"""Sorting beyond the training lengths: successor hints and tempered softmax (Task hinting, Tables 1 and 2)."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect, Logged, Together
from workbench.studies.study import PAPER, SMALL, Groups, Published, Source, Study

ACCURACY = "accuracy"
PLAIN, TEMPERED, HINTS, BOTH = "plain", "tempered", "hints", "hints-tempered"
LONGEST = 20  # of the small scale, whose training sequences have up to 16 symbols


def sweep(settings: dict[str, Any], presets: tuple[str, ...]) -> dict[str, Any]:
    """With and without hints, with plain and tempered softmax."""
    variants = [
        {"name": name, "preset": preset} for name, preset in zip((PLAIN, TEMPERED, HINTS, BOTH), presets, strict=True)
    ]
    return {"settings": settings, "variants": variants}


def draw(groups: Groups) -> go.Figure:
    """Whole sequences right, by length."""
    return by_dim(groups, ACCURACY, "Sorting: whole sequences right, by length", "share of sequences right")


STUDY = Study(
    question="Do successor hints, and tempered softmax, sort sequences longer than those trained on?",
    source=Source("Task hinting", "Tables 1 and 2"),
    runs={
        SMALL: sweep({"steps": 4000}, ("sort-standard", "sort-tempered", "sort-hints", "sort-tempered-hints")),
        PAPER: sweep({}, ("paper/sort", "paper/sort-tempered", "paper/sort-hints", "paper/sort-hints-tempered")),
    },
    measure=Together((Inspect((ACCURACY,), n=512), Logged(("loss",)))),
    contrasts=(
        Higher(ACCURACY, HINTS, PLAIN, at={"length": LONGEST}),
        Higher(ACCURACY, TEMPERED, PLAIN, at={"length": LONGEST}),
        Higher(ACCURACY, BOTH, PLAIN, at={"length": LONGEST}),
    ),
    published=(
        Published(PLAIN, ACCURACY, 0.0, {"length": 100}),
        Published(TEMPERED, ACCURACY, 0.452, {"length": 100}),
        Published(HINTS, ACCURACY, 0.524, {"length": 100}),
        Published(BOTH, ACCURACY, 0.648, {"length": 100}),
    ),
    draw=draw,
    seeds={SMALL: 5, PAPER: 3},
    because={
        "task.copies": "with the next larger symbol as the hint of a copy, small models stay at 60 %",
        "": "to train in minutes on two CPU cores",
    },
    tune={"learning_rate": [1e-3, 6e-3]},
)
