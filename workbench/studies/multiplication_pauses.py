"""The number of pause tokens, with and without Seq-VCR (Seq-VCR, Figure 10)."""

from __future__ import annotations

from typing import Any

from workbench.studies.contrasts import Higher
from workbench.studies.figures import by_setting
from workbench.studies.measures import Inspect
from workbench.studies.multiplication_methods import AT, BECAUSE, BOTH, PAUSE, SHORTER, WHOLE
from workbench.studies.study import PAPER, SMALL, Figure, Groups, Source, Study

PAUSES = (2, 4, 8)


def group(name: str, pauses: int) -> str:
    """The name of a group."""
    return f"{name}, n_pause {pauses}"


def sweep(prefix: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Each number of pauses, with and without Seq-VCR."""
    variants = [{"name": name, "preset": f"{prefix}-{name}"} for name in (PAUSE, BOTH)]
    return {"settings": settings, "grid": {"task.n_pause": list(PAUSES)}, "variants": variants}


def draw(groups: Groups) -> Figure:
    """Whole products right, by number of pauses."""
    lines = {
        name: {float(pauses): groups[group(name, pauses)][WHOLE].select(**AT) for pauses in PAUSES}
        for name in (PAUSE, BOTH)
    }
    return by_setting(
        lines, "Multiplication: whole products right, by number of pauses", "pause tokens", "whole products right"
    )


STUDY = Study(
    question="With any number of pauses, does Seq-VCR multiply better than pauses alone?",
    source=Source("Seq-VCR", "Figure 10"),
    runs={SMALL: sweep("multiply", SHORTER), PAPER: sweep("paper/multiply-4", {})},
    measure=Inspect((WHOLE,), n=512),
    contrasts=tuple(Higher(WHOLE, group(BOTH, pauses), group(PAUSE, pauses), at=AT) for pauses in PAUSES),
    draw=draw,
    seeds={SMALL: 3, PAPER: 3},
    tune={"learning_rate": [1e-3]},
    because=BECAUSE,
)
