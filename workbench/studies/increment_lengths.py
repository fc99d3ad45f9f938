"""Increment beyond the training lengths: carry hints and tempered softmax (Task hinting, Table 3)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_dim
from workbench.studies.measures import Inspect
from workbench.studies.study import GPU, PAPER, SMALL, Figure, Groups, Source, Study

ACCURACY = "accuracy"
PLAIN, TEMPERED, HINTS = "plain", "tempered", "hints"
BEYOND = {
    SMALL: {"length": 14},
    GPU: {"length": 15},
    PAPER: {"length": 17},
}  # digits; training has up to 8, and 10 at the other scales
PAPERS = ("paper/increment", "paper/increment-hints", "paper/increment-tempered")
NARROWER: dict[str, Any] = {
    "model": {"d_model": 512, "n_heads": 8, "d_mlp": 1024},
    **{"steps": 8000, "learning_rate": 3e-4, "schedule": "onecycle", "precision": "tf32", "bucket_steps": 16},
}


def sweep(settings: dict[str, Any], presets: tuple[str, ...]) -> dict[str, Any]:
    """Plain, with the carry as a hint, and tempered."""
    variants = [
        {"name": name, "preset": preset} for name, preset in zip((PLAIN, HINTS, TEMPERED), presets, strict=True)
    ]
    return {"settings": settings, "variants": variants}


def contrasts(scale: str) -> tuple[Higher, ...]:
    """Hints, and tempered softmax, against neither."""
    return tuple(Higher(ACCURACY, name, PLAIN, at=BEYOND[scale]) for name in (HINTS, TEMPERED))


def draw(groups: Groups) -> Figure:
    """Whole answers right, by length."""
    return by_dim(groups, ACCURACY, "Increment: whole answers right, by length", "share of answers right")


STUDY = Study(
    question="Do carry hints increment numbers longer than those trained on?",
    source=Source("Task hinting", "Table 3"),
    runs={
        SMALL: sweep(
            {"steps": 2400, "checkpoint_count": 6}, ("increment-standard", "increment-hints", "increment-tempered")
        ),
        GPU: sweep(NARROWER, PAPERS),
        PAPER: sweep({}, PAPERS),
    },
    measure=Inspect((ACCURACY,), n=512),
    contrasts=contrasts(SMALL),
    contrasts_at={scale: contrasts(scale) for scale in (GPU, PAPER)},
    draw=draw,
    seeds={SMALL: 3, GPU: 3, PAPER: 3},
    tune={"learning_rate": [3e-4, 3e-3]},
)
