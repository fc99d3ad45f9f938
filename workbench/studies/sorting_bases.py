"""What the residual points at on both bases: copy, minimum, successor (Task hinting, Figures 4.12 to 4.14)."""

from __future__ import annotations

from typing import Any

from workbench.studies import sorting_lengths
from workbench.studies.contrasts import Contrast, Higher, Reaches
from workbench.studies.figures import by_dim, by_group, over_training
from workbench.studies.measures import AtCheckpoints, Inspect, Together
from workbench.studies.sorting_lengths import HINTS, PLAIN, WIDE_EVERY, WIDE_STEPS
from workbench.studies.study import DAY, Figure, Groups, Source, Study

COPY, MINIMUM, SUCCESSOR, REMOVED = "copy", "minimum", "successor", "identity_removed"
LATER = " after attention 1"  # where the minimum can still be found
IN_SECOND: dict[str, Any] = {"settings": {MINIMUM: {"layer": 1}}, "suffix": LATER}
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


def draw_over_training(groups: Groups) -> Figure | None:
    """The minimum at ⊥ after either attention layer over training, without hints: our own question.

    None of a result of before it was asked.
    """
    places = {"after attention 0": MINIMUM, LATER.strip(): f"{MINIMUM}{LATER}"}
    if f"{MINIMUM} over training" not in groups[PLAIN]:
        return None
    curves = {where: {MINIMUM: groups[PLAIN][f"{name} over training"]} for where, name in places.items()}
    return over_training(curves, MINIMUM, "How often ⊥ points at the minimum over training, without hints")


def contrasts() -> tuple[Contrast, ...]:
    """Whether every seed of plain models and of hinted ones points where the paper says, in 90 % of cases."""
    return tuple(
        Reaches(claim, group, 0.9, at=FIRST if claim == COPY else {})
        for claim in (COPY, MINIMUM, SUCCESSOR, REMOVED)
        for group in (PLAIN, HINTS)
    )


def wide_contrasts() -> tuple[Contrast, ...]:
    """The same of wide models, but for the minimum, of which the paper says "typically": in more than half.

    Asked beside it, and not by the paper: whether the second attention has it wherever the first lost it, and whether
    the first had it more often early in training than at the end.
    """
    early, end = {"step": 2 * WIDE_EVERY}, {"step": WIDE_STEPS}
    return (
        *(one for one in contrasts() if one.asked.quantity != MINIMUM),
        *(Reaches(MINIMUM, group, 0.5) for group in (PLAIN, HINTS)),
        *(Reaches(f"{MINIMUM}{LATER}", group, 0.9) for group in (PLAIN, HINTS)),
        Higher(MINIMUM, PLAIN, HINTS),
        Higher(f"{MINIMUM} over training", PLAIN, PLAIN, at=early, than_at=end),
    )


STUDY = Study(
    question="In trained sorters, do tokens, ⊥ and outputs point where the paper says, at lengths trained on?",
    source=Source("Task hinting", "Figures 4.12, 4.13 and 4.14"),
    runs=sorting_lengths.STUDY.runs,
    runs_of="sorting-lengths",
    measure=Together(
        (
            Inspect((COPY, MINIMUM, SUCCESSOR, REMOVED), n=128, conditions=TRAINED, controls=("mismatched",)),
            Inspect((MINIMUM,), n=128, conditions=TRAINED, controls=("mismatched",), **IN_SECOND),
            AtCheckpoints(Inspect((MINIMUM,), n=128, conditions=TRAINED)),
            AtCheckpoints(Inspect((MINIMUM,), n=128, conditions=TRAINED, **IN_SECOND)),
        )
    ),
    contrasts=contrasts(),
    contrasts_at={DAY: wide_contrasts()},
    draw=(draw_copy, draw_successor, draw_minimum, draw_over_training),
    seeds=sorting_lengths.STUDY.seeds,
    because=sorting_lengths.STUDY.because,
    tune={"learning_rate": [1e-3]},
)
