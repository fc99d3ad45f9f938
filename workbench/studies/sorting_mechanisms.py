"""How often ⊥ holds the minimum, and outputs identity and successor, with and without hints (Figures 4.15, 4.16)."""

from __future__ import annotations

import plotly.graph_objects as go

from workbench.studies import sorting_lengths
from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import ByCondition
from workbench.studies.sorting_lengths import HINTS, LONGEST, PLAIN
from workbench.studies.study import Groups, Source, Study

MINIMUM, SUCCESSOR = "minimum", "successor"


def draw(groups: Groups) -> go.Figure:
    """How often the minimum stands at ⊥, by length."""
    return by_dim(groups, MINIMUM, "The minimum at ⊥, by length", "share of sequences")


STUDY = Study(
    question="Do hints make the minimum and the successor easier to read from the residual, at all lengths?",
    source=Source("Task hinting", "Figures 4.15 and 4.16"),
    runs=sorting_lengths.STUDY.runs,
    runs_of="sorting-lengths",
    measure=ByCondition((MINIMUM, SUCCESSOR), "length", n=128),
    contrasts=(
        Higher(MINIMUM, HINTS, PLAIN, at={"length": LONGEST}),
        Higher(SUCCESSOR, HINTS, PLAIN, at={"length": LONGEST}),
    ),
    draw=draw,
    seeds=sorting_lengths.STUDY.seeds,
    because=sorting_lengths.STUDY.because,
)
