"""What the residual points at on both bases: copy, minimum, successor (Task hinting, Figures 4.12 to 4.14)."""

from __future__ import annotations

from workbench.studies import sorting_lengths
from workbench.studies.contrasts import Reaches
from workbench.studies.figures import by_dim, by_group
from workbench.studies.measures import Inspect
from workbench.studies.sorting_lengths import HINTS, PLAIN
from workbench.studies.study import Figure, Groups, Source, Study

COPY, MINIMUM, SUCCESSOR, REMOVED = "copy", "minimum", "successor", "identity_removed"
FIRST = {"point": "blocks.0.hook_resid_post"}  # after the first layer
TRAINED = ({"length": 6}, {"length": 10})  # lengths trained on, at both scales


def draw_copy(groups: Groups) -> Figure:
    """Tokens before ⊥ point at themselves in the encoder basis (Figure 4.12)."""
    return by_dim(groups, COPY, "How often tokens before ⊥ point at themselves (encoder basis)", "share of positions")


def draw_successor(groups: Groups) -> Figure:
    """Outputs point at themselves and their successor in the decoder basis (Figure 4.13)."""
    return by_group(groups, SUCCESSOR, "How often outputs point at themselves and their successor (decoder basis)")


def draw_minimum(groups: Groups) -> Figure:
    """⊥ points at the minimum in the decoder basis (Figure 4.14)."""
    return by_group(groups, MINIMUM, "How often ⊥ points at the minimum (decoder basis)")


STUDY = Study(
    question="In trained sorters, do tokens, ⊥ and outputs point where the paper says, at lengths trained on?",
    source=Source("Task hinting", "Figures 4.12, 4.13 and 4.14"),
    runs=sorting_lengths.STUDY.runs,
    runs_of="sorting-lengths",
    measure=Inspect((COPY, MINIMUM, SUCCESSOR, REMOVED), n=128, conditions=TRAINED),
    contrasts=tuple(
        Reaches(claim, group, 0.9, at=FIRST if claim == COPY else {})
        for claim in (COPY, MINIMUM, SUCCESSOR, REMOVED)
        for group in (PLAIN, HINTS)
    ),
    draw=(draw_copy, draw_successor, draw_minimum),
    seeds=sorting_lengths.STUDY.seeds,
    because=sorting_lengths.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
