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

PAPERS: dict[str, Any] = {
    "task": {"q": 100, "min_length": 2, "max_length": 20, "test_max_length": 100, "skew": "paper"},
    "model": {"d_model": 1024, "n_heads": 16, "d_mlp": 2048},
    "steps": 100_000,
    "schedule": "cosine",
    "batch_size": 1024,
    "learning_rate": 1e-5,
}


def sweep(settings: dict[str, Any]) -> dict[str, Any]:
    """With and without hints, with plain and tempered softmax."""
    tempered = {"model": {"attention": "tempered"}}
    return {
        "preset": "sort-standard",
        "settings": settings,
        "variants": [
            {"name": PLAIN},
            {"name": TEMPERED, "preset": "sort-tempered"},
            {"name": HINTS, "preset": "sort-hints"},
            {"name": BOTH, "preset": "sort-hints", "settings": tempered},
        ],
    }


def draw(groups: Groups) -> go.Figure:
    """Whole sequences right, by length."""
    return by_dim(groups, ACCURACY, "Sorting: whole sequences right, by length", "share of sequences right")


STUDY = Study(
    question="Do successor hints, and tempered softmax, sort sequences longer than those trained on?",
    source=Source("Task hinting", "Tables 1 and 2"),
    runs={SMALL: sweep({"steps": 4000}), PAPER: sweep(PAPERS)},
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
