"""Multiplication: Seq-VCR, pause tokens, both, and a chain of thought, against neither (Seq-VCR, Table 1)."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_group
from workbench.studies.measures import Inspect, Logged, Together
from workbench.studies.study import PAPER, SMALL, Groups, Published, Source, Study

WHOLE, AT = "overall", {"unit": "sequence"}
VANILLA, PAUSE, SEQ_VCR, BOTH, THOUGHT = "vanilla", "pause", "seqvcr", "seqvcr-pause", "cot"
NAMES = (VANILLA, PAUSE, SEQ_VCR, BOTH, THOUGHT)

PUBLISHED = tuple(
    Published(name, WHOLE, value, AT) for name, value in zip(NAMES, (0.25, 0.28, 0.52, 0.992, 1.0), strict=True)
)


def sweep(prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The five configurations of the table, from the presets with this prefix."""
    return {"settings": settings, "variants": [{"name": name, "preset": f"{prefix}-{name}"} for name in NAMES]}


def draw(groups: Groups) -> go.Figure:
    """Whole products right."""
    title = "Multiplication: whole products right"
    return by_group(groups, WHOLE, title, at=AT, published=PUBLISHED)


STUDY = Study(
    question="Does Seq-VCR with pause tokens multiply where a plain model fails?",
    source=Source("Seq-VCR", "Table 1"),
    runs={
        SMALL: sweep("multiply", {"task": {"digits": 3}, "steps": 1200}),
        PAPER: sweep("paper/multiply-4", {}),
    },
    measure=Together((Inspect((WHOLE, "accuracy", "entropy"), n=512), Logged(("accuracy", "loss")))),
    contrasts=(
        Higher(WHOLE, BOTH, VANILLA, at=AT),
        Higher(WHOLE, SEQ_VCR, VANILLA, at=AT),
        Higher(WHOLE, THOUGHT, VANILLA, at=AT),
    ),
    published=PUBLISHED,
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
    because={
        "task.digits": "three digits, which a small model does not multiply without help in so many steps",
        "": "to train in minutes on two CPU cores",
    },
    tune={"learning_rate": [1e-3, 6e-3]},
)
