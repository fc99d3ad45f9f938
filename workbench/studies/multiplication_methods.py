"""Multiplication: Seq-VCR, pause tokens, both, and a chain of thought, against neither (Seq-VCR, Table 1)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_group
from workbench.studies.measures import Inspect, Logged, OverTraining, Together
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Published, Source, Study

WHOLE, AT, LOSS = "overall", {"unit": "sequence"}, "test_loss"
VANILLA, PAUSE, SEQ_VCR, BOTH, THOUGHT = "vanilla", "pause", "seqvcr", "seqvcr-pause", "cot"
SHORTER: dict[str, Any] = {"checkpoint_count": 6}  # the small scale, in which several studies find the same runs
METHODS = (VANILLA, PAUSE, SEQ_VCR, BOTH, THOUGHT)


def sweep(prefix: str, settings: dict[str, Any], methods: tuple[str, ...] = METHODS) -> dict[str, Any]:
    """The configurations of the table, from the presets with this prefix."""
    return {"settings": settings, "variants": [{"name": name, "preset": f"{prefix}-{name}"} for name in methods]}


def published(*values: float) -> tuple[Published, ...]:
    """The published shares of whole products right, in the order of `METHODS`."""
    return tuple(Published(name, WHOLE, value, AT) for name, value in zip(METHODS, values, strict=True))


PUBLISHED = published(0.25, 0.28, 0.52, 0.992, 1.0)


BECAUSE = {
    "task.digits": "two digits, of which a small model gets part right without help in so many steps",
    "train_size": "every batch is drawn anew: of 7,290 products of two digits each comes about 42 times",
}


def draw(groups: Groups) -> Figure:
    """Whole products right."""
    return by_group(groups, WHOLE, "Multiplication: whole products right", at=AT, published=PUBLISHED)


STUDY = Study(
    question="Is Seq-VCR, with pause tokens and without, right about more products than a plain model?",
    source=Source("Seq-VCR", "Table 1, 4 × 4 digits"),
    runs={SMALL: sweep("multiply", SHORTER), PAPER: sweep("paper/multiply-4", {"checkpoint_count": 12})},
    measure=Together((Inspect((WHOLE,), n=512), Logged((LOSS,)), OverTraining(LOSS))),
    contrasts=(
        Higher(WHOLE, BOTH, VANILLA, at=AT),
        Higher(WHOLE, SEQ_VCR, VANILLA, at=AT),
        Higher(WHOLE, THOUGHT, VANILLA, at=AT),
    ),
    published=PUBLISHED,
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
    because=BECAUSE,
    tune={"learning_rate": [1e-3]},
)
